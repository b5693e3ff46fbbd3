//! How much of the answer a scheme's number formats alone cost.

use super::reference::Reference;

/// Relative Frobenius error `norm(scheme - bf16) / norm(bf16)` of a scheme's exact answer against the exact answer of the
/// bf16 layer that was quantised.
///
/// Both references hold the same columns of the same case. A sample of a few thousand elements gives the error to about
/// `1 / sqrt(2 * elements)` of itself. Make the bf16 reference with [`Reference::compute_with`] where the layer is not in
/// memory.
///
/// # Errors
/// A sentence when the references are of different cases or columns, or the bf16 answer is zero everywhere.
pub fn quantisation_error(scheme: &Reference, bf16: &Reference) -> Result<f64, String> {
    if scheme.shape() != bf16.shape() || scheme.rows() != bf16.rows() || scheme.columns() != bf16.columns() {
        return Err("the references of the scheme and of bf16 hold different cases or columns".into());
    }
    relative_frobenius(scheme.values().iter().copied(), bf16.values().iter().copied())
        .ok_or_else(|| "the bf16 answer is zero everywhere, so no error is relative to it".into())
}

/// `norm(approximate - exact) / norm(exact)`; none when `exact` is zero.
pub fn relative_frobenius(
    approximate: impl IntoIterator<Item = f64>,
    exact: impl IntoIterator<Item = f64>,
) -> Option<f64> {
    let pairs = approximate.into_iter().zip(exact);
    let (error, norm) = pairs.fold((0.0, 0.0), |(error, norm), (a, e)| (error + (a - e) * (a - e), norm + e * e));
    (norm > 0.0).then(|| (error / norm).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::GemmShape;
    use crate::verify::{Columns, SampledColumns};

    #[test]
    fn is_the_relative_norm_of_the_difference() {
        let shape = GemmShape { experts: 1, n: 2, k: 16 };
        let reference =
            |values: &[f64]| Reference::from_parts(shape, 1, Columns::All, values.to_vec(), vec![1.0; 2]).unwrap();
        let exact = reference(&[3.0, 4.0]);
        assert_eq!(quantisation_error(&reference(&[3.0, 4.5]), &exact), Ok(0.1));
        assert!(quantisation_error(&exact, &reference(&[0.0, 0.0])).unwrap_err().contains("zero everywhere"));
        let sampled = Columns::Sampled(SampledColumns::draw(shape, 2, 1));
        let other = Reference::from_parts(shape, 1, sampled, vec![3.0, 4.0], vec![1.0; 2]).unwrap();
        assert!(quantisation_error(&other, &exact).unwrap_err().contains("different"));
    }
}
