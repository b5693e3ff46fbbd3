//! Operands of a scheme from seeded numbers, quantised, in the canonical layouts.
//!
//! NVFP4 weights carry one global per expert, from the expert's largest magnitude. NVFP4 activations carry one per layer
//! or one per expert, as served. Work is spread over the current rayon pool; the result does not depend on it.

use half::bf16;
use rayon::prelude::*;

use super::bytes::{activation_bytes, layer_weight_bytes};
use super::error::OperandError;
use super::source::{ActivationSource, ExpertSource, WeightSource};
use super::{Activations, Nvfp4Weights, Weights};
use crate::kernel::Scheme;
use crate::numeric::{GlobalMultiplier, QuantiseError, amax, fp8, mx, nvfp4};
use crate::shape::GemmShape;

/// Rows made and quantised together, few enough to stay in a core's cache.
const SLAB_ROWS: u32 = 4;

/// The most bytes of one operand that are made.
const LIMIT: u128 = 1 << 40;

/// Which globals NVFP4 activations carry.
#[derive(Clone, Copy, Debug)]
pub enum ActivationGlobals<'a> {
    /// One, from the largest magnitude of all rows.
    PerLayer,
    /// One per expert, from the largest magnitude of its rows; 1 for an expert without rows.
    PerExpert {
        /// First row of each expert, `experts + 1` entries.
        offsets: &'a [u32],
    },
}

/// Makes the weights of layer copy `layer`.
///
/// # Errors
/// When a dimension is zero, k does not split into the scheme's blocks, or the weights are larger than 1 TiB.
pub fn generate_weights(shape: GemmShape, scheme: Scheme, seed: u64, layer: u32) -> Result<Weights, OperandError> {
    check_weights(shape, scheme)?;
    let GemmShape { experts, n, k } = shape;
    let source = WeightSource::new(seed, layer, shape);
    let elements = experts as usize * n as usize * k as usize;
    let row = k as usize;
    Ok(match scheme {
        Scheme::Nvfp4W4a4 | Scheme::Nvfp4W4a16 => {
            let globals = expert_amax(&source)
                .into_iter()
                .map(GlobalMultiplier::from_amax)
                .collect::<Result<Vec<GlobalMultiplier>, QuantiseError>>()?;
            let mut values = vec![0u8; elements / 2];
            let mut scales = vec![0u8; elements / nvfp4::BLOCK];
            let parts =
                Parts { slab_rows: SLAB_ROWS, values: row / 2, scales: SLAB_ROWS as usize * row / nvfp4::BLOCK };
            fill(&source, parts, &mut values, &mut scales, |e, x, v, s| match globals.get(e) {
                Some(&g) => nvfp4::quantise_into(x, g, v, s),
                None => Ok(()),
            })?;
            let globals = globals.into_iter().map(GlobalMultiplier::get).collect();
            Weights::Nvfp4(Nvfp4Weights { values, scales, globals })
        }
        Scheme::Mxfp4W4a8 => {
            let mut values = vec![0u8; elements / 2];
            let mut scales = vec![0u8; elements / mx::BLOCK];
            let parts = Parts { slab_rows: SLAB_ROWS, values: row / 2, scales: SLAB_ROWS as usize * row / mx::BLOCK };
            fill(&source, parts, &mut values, &mut scales, |_, x, v, s| mx::quantise_fp4_into(x, v, s))?;
            Weights::Mxfp4 { values, scales }
        }
        Scheme::Fp8Block => {
            let across = row.div_ceil(fp8::BLOCK);
            let mut values = vec![0u8; elements];
            let mut scales = vec![0f32; experts as usize * (n as usize).div_ceil(fp8::BLOCK) * across];
            let parts = Parts { slab_rows: fp8::BLOCK as u32, values: row, scales: across };
            fill(&source, parts, &mut values, &mut scales, |_, x, v, s| fp8::quantise_blocks_into(x, row, v, s))?;
            Weights::Fp8Block { values, scales }
        }
        Scheme::Fp8 => {
            let scales: Vec<f32> = expert_amax(&source).into_iter().map(fp8::scale_of).collect();
            let mut values = vec![0u8; elements];
            let (parts, mut none) = without_scales(shape);
            fill(&source, parts, &mut values, &mut none, |e, x, v, _| match scales.get(e) {
                Some(&scale) => fp8::quantise_into(x, scale, v),
                None => Ok(()),
            })?;
            Weights::Fp8 { values, scales }
        }
        Scheme::Bf16 => {
            let mut values = vec![bf16::ZERO; elements];
            let (parts, mut none) = without_scales(shape);
            fill(&source, parts, &mut values, &mut none, |_, x, v, _| {
                to_bf16(x, v);
                Ok(())
            })?;
            Weights::Bf16(values)
        }
    })
}

/// Whether weights of the shape can be made.
///
/// # Errors
/// As [`generate_weights`].
pub fn check_weights(shape: GemmShape, scheme: Scheme) -> Result<(), OperandError> {
    let GemmShape { experts, n, k } = shape;
    if experts == 0 || n == 0 || k == 0 {
        return Err(OperandError::Empty { experts, n, k });
    }
    check_size("weights", layer_weight_bytes(scheme, shape).into())?;
    scheme_fits(scheme, k)
}

/// Whether such activations can be made.
///
/// # Errors
/// As [`generate_activations`].
pub fn check_activations(
    rows: u32,
    k: u32,
    scheme: Scheme,
    globals: ActivationGlobals<'_>,
) -> Result<(), OperandError> {
    if k == 0 {
        return Err(OperandError::Empty { experts: 1, n: 1, k });
    }
    check_size("activations", activation_bytes(scheme, rows.into(), k).into())?;
    if let ActivationGlobals::PerExpert { offsets } = globals {
        spans(offsets, rows)?;
    }
    scheme_fits(scheme, k)
}

/// Makes the activations of all rows. `globals` matters to NVFP4 activations only.
///
/// # Errors
/// When k is zero or does not split into the scheme's blocks, the offsets are not those of `rows` rows, or the
/// activations are larger than 1 TiB.
pub fn generate_activations(
    rows: u32,
    k: u32,
    scheme: Scheme,
    seed: u64,
    globals: ActivationGlobals<'_>,
) -> Result<Activations, OperandError> {
    check_activations(rows, k, scheme, globals)?;
    let row = k as usize;
    let x = activation_values(rows, k, seed);
    Ok(match scheme {
        Scheme::Nvfp4W4a4 => {
            let layer = [0, rows];
            let spans = match globals {
                ActivationGlobals::PerLayer => spans(&layer, rows)?,
                ActivationGlobals::PerExpert { offsets } => spans(offsets, rows)?,
            };
            let mut values = vec![0u8; x.len() / 2];
            let mut scales = vec![0u8; x.len() / nvfp4::BLOCK];
            let (mut v, mut s) = (values.as_mut_slice(), scales.as_mut_slice());
            let mut globals = Vec::with_capacity(spans.len());
            for span in spans {
                let x = &x[span.start as usize * row..span.end as usize * row];
                let (v_span, s_span);
                (v_span, v) = v.split_at_mut(x.len() / 2);
                (s_span, s) = s.split_at_mut(x.len() / nvfp4::BLOCK);
                let global = GlobalMultiplier::from_amax(amax(x)?)?;
                x.par_chunks(row)
                    .zip(v_span.par_chunks_mut(row / 2).zip(s_span.par_chunks_mut(row / nvfp4::BLOCK)))
                    .try_for_each(|(x, (v, s))| nvfp4::quantise_into(x, global, v, s))?;
                globals.push(global.get());
            }
            Activations::Nvfp4 { values, scales, globals }
        }
        Scheme::Mxfp4W4a8 => {
            let mut values = vec![0u8; x.len()];
            let mut scales = vec![0u8; x.len() / mx::BLOCK];
            x.par_chunks(row)
                .zip(values.par_chunks_mut(row).zip(scales.par_chunks_mut(row / mx::BLOCK)))
                .try_for_each(|(x, (v, s))| mx::quantise_fp8_into(x, v, s))?;
            Activations::Mxfp8 { values, scales }
        }
        Scheme::Fp8Block => {
            let across = row.div_ceil(fp8::BLOCK);
            let mut values = vec![0u8; x.len()];
            let mut scales = vec![0f32; rows as usize * across];
            x.par_chunks(row)
                .zip(values.par_chunks_mut(row).zip(scales.par_chunks_mut(across)))
                .try_for_each(|(x, (v, s))| fp8::quantise_groups_into(x, row, v, s))?;
            Activations::Fp8Group { values, scales }
        }
        Scheme::Fp8 => {
            let scale = fp8::scale_of(amax(&x)?);
            let mut values = vec![0u8; x.len()];
            x.par_chunks(row).zip(values.par_chunks_mut(row)).try_for_each(|(x, v)| fp8::quantise_into(x, scale, v))?;
            Activations::Fp8 { values, scale }
        }
        Scheme::Nvfp4W4a16 | Scheme::Bf16 => {
            let mut values = vec![bf16::ZERO; x.len()];
            x.par_chunks(row).zip(values.par_chunks_mut(row)).for_each(|(x, v)| to_bf16(x, v));
            Activations::Bf16(values)
        }
    })
}

/// The bf16 activations `[rows][k]` before quantisation, as f32.
pub fn activation_values(rows: u32, k: u32, seed: u64) -> Vec<f32> {
    let source = ActivationSource::new(seed, k);
    let mut x = vec![0f32; rows as usize * k as usize];
    x.par_chunks_mut((k as usize).max(1))
        .enumerate()
        .for_each_init(Vec::new, |scratch, (r, row)| source.fill_row(r as u32, scratch, row));
    x
}

/// The bf16 weight before quantisation: what a scheme's error is measured against. For whole rows,
/// [`WeightSource::expert`] is faster.
pub fn bf16_weight(seed: u64, layer: u32, shape: GemmShape, expert: u32, n: u32, k: u32) -> bf16 {
    WeightSource::new(seed, layer, shape).value(expert, n, k)
}

/// Whether k splits into the blocks of the scheme.
///
/// # Errors
/// A sentence with the numbers.
pub fn scheme_fits(scheme: Scheme, k: u32) -> Result<(), OperandError> {
    let (format, group) = match scheme {
        Scheme::Nvfp4W4a4 | Scheme::Nvfp4W4a16 => ("NVFP4", nvfp4::BLOCK),
        Scheme::Mxfp4W4a8 => ("MXFP4", mx::BLOCK),
        Scheme::Fp8Block | Scheme::Fp8 | Scheme::Bf16 => return Ok(()),
    };
    let k = k as usize;
    if k.is_multiple_of(group) { Ok(()) } else { Err(QuantiseError::Group { format, k, group }.into()) }
}

/// How the output of a slab of rows is cut.
#[derive(Clone, Copy)]
struct Parts {
    /// Rows of a slab; the last slab of an expert may have fewer.
    slab_rows: u32,
    /// Output elements of a row.
    values: usize,
    /// Scales of a slab of full height.
    scales: usize,
}

/// For schemes whose scales are not made slab by slab: an empty scale for each slab.
fn without_scales(shape: GemmShape) -> (Parts, Vec<()>) {
    let slabs = shape.experts as usize * shape.n.div_ceil(SLAB_ROWS) as usize;
    (Parts { slab_rows: SLAB_ROWS, values: shape.k as usize, scales: 1 }, vec![(); slabs])
}

/// Makes every row and hands it, slab by slab, to `quantise(expert, rows of f32, values, scales)`.
fn fill<V: Send, S: Send>(
    source: &WeightSource,
    parts: Parts,
    values: &mut [V],
    scales: &mut [S],
    quantise: impl Fn(usize, &[f32], &mut [V], &mut [S]) -> Result<(), QuantiseError> + Sync,
) -> Result<(), QuantiseError> {
    let GemmShape { experts, n, k } = source.shape();
    let k = k as usize;
    values
        .par_chunks_mut(n as usize * parts.values)
        .zip(scales.par_chunks_mut(scales.len() / experts as usize))
        .enumerate()
        .try_for_each(|(e, (values, scales))| {
            let expert = source.expert(e as u32);
            values
                .par_chunks_mut(parts.slab_rows as usize * parts.values)
                .zip(scales.par_chunks_mut(parts.scales))
                .enumerate()
                .try_for_each_init(
                    || (Vec::new(), vec![0f32; parts.slab_rows as usize * k]),
                    |(scratch, x), (slab, (values, scales))| {
                        let x = &mut x[..values.len() / parts.values * k];
                        for (row, n) in x.chunks_exact_mut(k).zip(slab as u32 * parts.slab_rows..) {
                            expert.fill_row(n, scratch, row);
                        }
                        quantise(e, x, values, scales)
                    },
                )
        })
}

/// Largest magnitude of each expert.
fn expert_amax(source: &WeightSource) -> Vec<f32> {
    let GemmShape { experts, n, k } = source.shape();
    let of_rows =
        |expert: &ExpertSource, first: u32| expert.amax(first..first.saturating_add(ROWS).min(n), k, &mut Vec::new());
    const ROWS: u32 = 64;
    (0..experts)
        .into_par_iter()
        .map(|e| {
            let expert = source.expert(e);
            (0..n.div_ceil(ROWS)).into_par_iter().map(|i| of_rows(&expert, i * ROWS)).reduce(|| 0.0, f32::max)
        })
        .collect()
}

/// Row ranges of the experts.
fn spans(offsets: &[u32], rows: u32) -> Result<Vec<std::ops::Range<u32>>, OperandError> {
    let wrong = |found: String| Err(OperandError::Offsets { rows, found });
    match (offsets.first(), offsets.last()) {
        (Some(0), Some(last)) if *last == rows => {}
        (Some(first), Some(last)) => return wrong(format!("{first} to {last}")),
        _ => return wrong("empty".to_string()),
    }
    if let Some(i) = offsets.windows(2).position(|w| w[0] > w[1]) {
        return wrong(format!("falling after expert {i}"));
    }
    Ok(offsets.windows(2).map(|w| w[0]..w[1]).collect())
}

fn to_bf16(x: &[f32], out: &mut [bf16]) {
    for (x, out) in x.iter().zip(out) {
        *out = bf16::from_f32(*x);
    }
}

fn check_size(what: &'static str, bytes: u128) -> Result<(), OperandError> {
    if bytes <= LIMIT { Ok(()) } else { Err(OperandError::TooLarge { what, bytes, limit: LIMIT }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: GemmShape = GemmShape { experts: 3, n: 130, k: 160 };

    fn expert_rows(shape: GemmShape, seed: u64, layer: u32, e: u32) -> Vec<f32> {
        let mut x = Vec::new();
        for n in 0..shape.n {
            for k in 0..shape.k {
                x.push(bf16_weight(seed, layer, shape, e, n, k).to_f32());
            }
        }
        x
    }

    /// Bytes that the enums really hold.
    fn held(w: &Weights) -> usize {
        match w {
            Weights::Nvfp4(w) => w.values.len() + w.scales.len() + 4 * w.globals.len(),
            Weights::Mxfp4 { values, scales } => values.len() + scales.len(),
            Weights::Fp8Block { values, scales } | Weights::Fp8 { values, scales } => values.len() + 4 * scales.len(),
            Weights::Bf16(v) => 2 * v.len(),
        }
    }

    #[test]
    fn every_scheme_quantises_the_same_numbers() {
        for scheme in Scheme::ALL {
            let w = generate_weights(SHAPE, scheme, 9, 2).unwrap();
            assert_eq!(held(&w) as u64, layer_weight_bytes(scheme, SHAPE), "{scheme}");
            let per = (SHAPE.n * SHAPE.k) as usize;
            for e in 0..3 {
                let x = expert_rows(SHAPE, 9, 2, e as u32);
                match &w {
                    Weights::Nvfp4(w) => {
                        let q = nvfp4::quantise(&x, 160).unwrap();
                        assert_eq!(q.global.get(), w.globals[e]);
                        assert_eq!(q.values, w.values[e * per / 2..(e + 1) * per / 2]);
                        assert_eq!(q.scales, w.scales[e * per / 16..(e + 1) * per / 16]);
                    }
                    Weights::Mxfp4 { values, scales } => {
                        let (mut v, mut s) = (vec![0; per / 2], vec![0; per / 32]);
                        mx::quantise_fp4_into(&x, &mut v, &mut s).unwrap();
                        assert_eq!(v, values[e * per / 2..(e + 1) * per / 2]);
                        assert_eq!(s, scales[e * per / 32..(e + 1) * per / 32]);
                    }
                    Weights::Fp8Block { values, scales } => {
                        let (mut v, mut s) = (vec![0; per], vec![0.0; 4]);
                        fp8::quantise_blocks_into(&x, 160, &mut v, &mut s).unwrap();
                        assert_eq!(v, values[e * per..(e + 1) * per]);
                        assert_eq!(s, scales[e * 4..(e + 1) * 4]);
                    }
                    Weights::Fp8 { values, scales } => {
                        let scale = fp8::scale_of(amax(&x).unwrap());
                        let mut v = vec![0; per];
                        fp8::quantise_into(&x, scale, &mut v).unwrap();
                        assert_eq!(scale, scales[e]);
                        assert_eq!(v, values[e * per..(e + 1) * per]);
                    }
                    Weights::Bf16(values) => {
                        assert!(values[e * per..(e + 1) * per].iter().zip(&x).all(|(a, b)| a.to_f32() == *b));
                    }
                }
            }
        }
    }

    #[test]
    fn activations_of_every_scheme() {
        let x = activation_values(6, 96, 4);
        let layer = ActivationGlobals::PerLayer;
        for scheme in Scheme::ALL {
            let a = generate_activations(6, 96, scheme, 4, layer).unwrap();
            let bytes = match &a {
                Activations::Bf16(v) => {
                    assert!(v.iter().zip(&x).all(|(a, b)| a.to_f32() == *b));
                    2 * v.len()
                }
                Activations::Nvfp4 { values, scales, globals } => {
                    let q = nvfp4::quantise(&x, 96).unwrap();
                    assert_eq!((&q.values, &q.scales, &[q.global.get()][..]), (values, scales, globals.as_slice()));
                    values.len() + scales.len() + 4
                }
                Activations::Mxfp8 { values, scales } => {
                    let (mut v, mut s) = (vec![0; x.len()], vec![0; x.len() / 32]);
                    mx::quantise_fp8_into(&x, &mut v, &mut s).unwrap();
                    assert_eq!((&v, &s), (values, scales));
                    v.len() + s.len()
                }
                Activations::Fp8Group { values, scales } => {
                    let (mut v, mut s) = (vec![0; x.len()], vec![0.0; 6]);
                    fp8::quantise_groups_into(&x, 96, &mut v, &mut s).unwrap();
                    assert_eq!((&v, &s), (values, scales));
                    v.len() + 4 * s.len()
                }
                Activations::Fp8 { values, scale } => {
                    assert_eq!(*scale, amax(&x).unwrap() / 448.0);
                    let mut v = vec![0; x.len()];
                    fp8::quantise_into(&x, *scale, &mut v).unwrap();
                    assert_eq!(&v, values);
                    v.len() + 4
                }
            };
            assert_eq!(bytes as u64, activation_bytes(scheme, 6, 96), "{scheme}");
        }
    }

    #[test]
    fn globals_per_expert() {
        let x = activation_values(6, 96, 4);
        let offsets = [0, 2, 2, 6];
        let globals = ActivationGlobals::PerExpert { offsets: &offsets };
        let a = generate_activations(6, 96, Scheme::Nvfp4W4a4, 4, globals).unwrap();
        let Activations::Nvfp4 { values, scales, globals } = a else { panic!("not NVFP4") };
        assert_eq!(globals.len(), 3);
        assert_eq!(globals[1], 1.0);
        let (head, tail) = (nvfp4::quantise(&x[..192], 96).unwrap(), nvfp4::quantise(&x[192..], 96).unwrap());
        assert_ne!(head.global, tail.global);
        assert_eq!([globals[0], globals[2]], [head.global.get(), tail.global.get()]);
        assert_eq!(values, [head.values, tail.values].concat());
        assert_eq!(scales, [head.scales, tail.scales].concat());
    }

    #[test]
    fn no_rows_is_no_activations() {
        let a = generate_activations(0, 32, Scheme::Nvfp4W4a4, 1, ActivationGlobals::PerLayer).unwrap();
        assert!(matches!(a, Activations::Nvfp4 { values, globals, .. } if values.is_empty() && globals == [1.0]));
    }

    #[test]
    fn refusals() {
        let shape = |experts, n, k| GemmShape { experts, n, k };
        let weights = |s| generate_weights(s, Scheme::Nvfp4W4a16, 0, 0).unwrap_err().to_string();
        assert!(weights(shape(1, 1, 24)).starts_with("K 24 is not a multiple of 16"), "{}", weights(shape(1, 1, 24)));
        assert!(weights(shape(1, 0, 16)).contains("N 0"));
        assert!(weights(shape(u32::MAX, u32::MAX, 1 << 20)).contains("more than"));
        for scheme in [Scheme::Mxfp4W4a8, Scheme::Nvfp4W4a4] {
            assert!(generate_activations(1, 8, scheme, 0, ActivationGlobals::PerLayer).is_err());
        }
        assert!(generate_activations(1, 0, Scheme::Bf16, 0, ActivationGlobals::PerLayer).is_err());
        for offsets in [&[][..], &[0, 3], &[1, 2], &[0, 2, 1, 2]] {
            let globals = ActivationGlobals::PerExpert { offsets };
            let e = generate_activations(2, 16, Scheme::Nvfp4W4a4, 0, globals).unwrap_err().to_string();
            assert!(e.starts_with("expert offsets must rise from 0 to the 2 rows"), "{e}");
        }
    }
}
