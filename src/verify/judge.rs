//! Holds an output against its reference.
//!
//! Three checks, all of which must hold:
//!
//! * **Element**: no element is farther from the exact answer than its [`Bound`].
//! * **Slope**, per expert: the slope `sum(o r) / sum(r r)` of outputs on exact answers is 1 up to what independent errors
//!   within the element bounds give. With errors of mean zero and at most B, Hoeffding's inequality says
//!   `P(|sum(r e)| > t) <= 2 exp(-t^2 / (2 sum(r^2 B^2)))`, whatever their distribution. The limit is
//!   `sqrt(2 ln(2 / p) sum(r^2 B^2)) / sum(r^2)` with p = 1e-12, and the drift of truncation ([`Accumulation::drift`]).
//!   It shrinks as one over the root of the elements: a scale that is off by less than rounding still shows.
//! * **Frobenius**, per expert: the root of the summed squares of errors is no larger than that of the exact answers
//!   rounded to bf16, which is known to the last bit, and what accumulation may add. An output is the bf16 number nearest
//!   to some sum `r + a`, so `|o - r| <= |rounded r - r| + 2|a|`, hence `norm(o - r) <= norm(rounded r - r) + 2 norm(a)`.
//!   Over 64 elements and more, norm(a) is at most what [`Accumulation::relative_rms`] says; over fewer, each a is at most A.
//!   An intermediate rounding to bf16, or a second one, shows here.
//!
//! Experts with few elements are pooled with the next ones until they have 64 together.

use half::bf16;
use rayon::prelude::*;

use crate::record::{Extra, VerifyRecord};

use super::bound::{Accumulation, Bound, SMALLEST_NORMAL, half_ulp};
use super::columns::Columns;
use super::compare_simd::{Sums, compare_row};
use super::fit::check_offsets;
use super::guard::POISON;
use super::reference::Reference;

/// Fewest elements of a pool of experts, unless there are fewer in all. 64 give the slope a limit of about 0.3%, and hold
/// accumulation errors to their root mean square.
const POOL: usize = 64;

/// `2 ln(2 / p)` for a false alarm probability p of 1e-12 for one pool.
const HOEFFDING: f64 = 56.6;

/// How an output compares with its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Largest error of an element over its bound; infinite when an output is not finite.
    pub max_error_over_bound: f64,
    /// Elements compared.
    pub elements: u64,
    /// Largest distance of a slope from 1 over its limit.
    pub max_slope_over_limit: f64,
    /// Largest Frobenius error over its limit.
    pub max_frobenius_over_limit: f64,
    /// What is wrong, in one sentence, naming the worst place; none when the output is right.
    pub failure: Option<String>,
}

impl Judgement {
    /// Nothing compared yet.
    pub fn empty() -> Self {
        Judgement {
            max_error_over_bound: 0.0,
            elements: 0,
            max_slope_over_limit: 0.0,
            max_frobenius_over_limit: 0.0,
            failure: None,
        }
    }

    /// An output that cannot be compared, or is wrong for another reason than its values.
    pub fn failed(reason: impl Into<String>) -> Self {
        Judgement { failure: Some(reason.into()), ..Judgement::empty() }
    }

    /// Whether the output is right.
    pub fn is_right(&self) -> bool {
        self.failure.is_none()
    }

    /// The worst of both; the first failure stays.
    pub fn merge(self, other: Judgement) -> Self {
        Judgement {
            max_error_over_bound: self.max_error_over_bound.max(other.max_error_over_bound),
            elements: self.elements + other.elements,
            max_slope_over_limit: self.max_slope_over_limit.max(other.max_slope_over_limit),
            max_frobenius_over_limit: self.max_frobenius_over_limit.max(other.max_frobenius_over_limit),
            failure: self.failure.or(other.failure),
        }
    }

    /// Says in which slot it failed; the first slot is where everything is looked for and is not named.
    pub fn in_slot(self, slot: usize) -> Self {
        let failure = self.failure.map(|f| if slot == 0 { f } else { format!("slot {slot}: {f}") });
        Judgement { failure, ..self }
    }

    /// The ratios as they stand in a results file, where an infinite one is the largest number: JSON has no infinity.
    pub fn record(&self) -> VerifyRecord {
        VerifyRecord {
            max_error_over_bound: self.max_error_over_bound.min(f64::MAX),
            elements: self.elements,
            max_slope_over_limit: self.max_slope_over_limit.min(f64::MAX),
            max_frobenius_over_limit: self.max_frobenius_over_limit.min(f64::MAX),
            quantisation_error: None,
            retargeted: false,
            extra: Extra::default(),
        }
    }
}

/// Judges an output against a reference.
///
/// `out` is the whole output, `[rows][n]`, whichever columns the reference holds; `offsets` holds the first row of each
/// expert, `experts + 1` entries. Runs on the current rayon pool; the result does not depend on it.
pub fn judge(out: &[bf16], reference: &Reference, offsets: &[u32], accumulation: Accumulation) -> Judgement {
    let shape = reference.shape();
    let n = shape.n as usize;
    match check_offsets(shape.experts, offsets) {
        Err(error) => return Judgement::failed(error.to_string()),
        Ok(rows) if rows != reference.rows() => {
            return Judgement::failed(format!("the offsets have {rows} rows, the reference {}", reference.rows()));
        }
        Ok(_) => {}
    }
    if Some(out.len()) != reference.rows().checked_mul(n) {
        return Judgement::failed(format!(
            "the output has {} elements, its shape has {} rows of {n} columns",
            out.len(),
            reference.rows()
        ));
    }
    if let Some(at) = first_not_finite(out) {
        return not_finite(out, at, n, offsets);
    }

    let bound = Bound::new(shape, accumulation);
    let rows: Vec<Sums> = (0..reference.rows())
        .into_par_iter()
        .with_min_len(1 + 4096 / reference.width())
        .map(|row| sum_row(row, &out[row * n..][..n], reference, offsets, bound))
        .collect();

    let mut judgement = Judgement { elements: (rows.len() * reference.width()) as u64, ..Judgement::empty() };
    let worst = (0..rows.len()).fold(0, |worst, row| if rows[row].ratio > rows[worst].ratio { row } else { worst });
    judgement.max_error_over_bound = rows.get(worst).map_or(0.0, |row| row.ratio);
    if judgement.max_error_over_bound > 1.0 {
        judgement.failure = Some(wrong_element(out, worst, reference, offsets, bound));
    }
    for pool in pools(&rows, offsets) {
        let slope = pool.sums.slope(bound);
        let frobenius = pool.sums.frobenius(bound);
        judgement.max_slope_over_limit = judgement.max_slope_over_limit.max(slope.ratio());
        judgement.max_frobenius_over_limit = judgement.max_frobenius_over_limit.max(frobenius.ratio());
        let failure = if slope.ratio() > 1.0 {
            format!(
                "{}: the slope of output on reference is {:.6} from 1, where {} elements allow {:.6}",
                pool.name(),
                slope.found,
                pool.sums.elements,
                slope.limit
            )
        } else if frobenius.ratio() > 1.0 {
            format!(
                "{}: the Frobenius error is {:.4e}, where rounding to bf16 and accumulation allow {:.4e}",
                pool.name(),
                frobenius.found,
                frobenius.limit
            )
        } else {
            continue;
        };
        judgement.failure.get_or_insert(failure);
    }
    judgement
}

/// Where the first output stands that is NaN or infinite.
fn first_not_finite(out: &[bf16]) -> Option<usize> {
    const CHUNK: usize = 1 << 14;
    let infinite = |value: &bf16| value.to_bits() & 0x7F80 == 0x7F80;
    // Without a way out of the inner loop it runs over many elements at once.
    let any = |chunk: &[bf16]| chunk.iter().fold(false, |any, value| any | infinite(value));
    let chunk = out.par_chunks(CHUNK).position_first(any)? * CHUNK;
    out[chunk..].iter().position(infinite).map(|at| chunk + at)
}

fn sum_row(row: usize, out: &[bf16], reference: &Reference, offsets: &[u32], bound: Bound) -> Sums {
    let (values, abs_sums) = reference.row(row);
    match reference.columns() {
        Columns::All => compare_row(out, values, abs_sums, bound),
        Columns::Sampled(sampled) => {
            let columns = sampled.of(expert_of(offsets, row));
            let out: Vec<bf16> = columns.iter().map(|&column| out[column as usize]).collect();
            compare_row(&out, values, abs_sums, bound)
        }
    }
}

/// Something that was found, and what is allowed.
struct Check {
    found: f64,
    limit: f64,
}

impl Check {
    fn ratio(&self) -> f64 {
        if self.found == 0.0 { 0.0 } else { self.found / self.limit }
    }
}

impl Sums {
    fn slope(&self, bound: Bound) -> Check {
        if self.square == 0.0 {
            return Check { found: 0.0, limit: 0.0 };
        }
        let found = (self.cross / self.square - 1.0).abs();
        Check { found, limit: (HOEFFDING * self.weighted_bounds).sqrt() / self.square + bound.drift() }
    }

    fn frobenius(&self, bound: Bound) -> Check {
        let share = if self.elements < POOL { 1.0 } else { bound.rms_share() };
        let flushed = SMALLEST_NORMAL * (self.elements as f64).sqrt();
        let limit = self.rounding.sqrt() + 2.0 * share * self.accumulation.sqrt() + flushed;
        Check { found: self.error.sqrt(), limit }
    }
}

/// Neighbouring experts that are judged together.
struct Pool {
    experts: Vec<usize>,
    sums: Sums,
}

impl Pool {
    fn name(&self) -> String {
        match self.experts.as_slice() {
            [expert] => format!("expert {expert}"),
            [first, .., last] => format!("{} experts from {first} to {last}", self.experts.len()),
            [] => "no expert".into(),
        }
    }
}

fn pools(rows: &[Sums], offsets: &[u32]) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for (expert, pair) in offsets.windows(2).enumerate() {
        let rows = &rows[pair[0] as usize..pair[1] as usize];
        if rows.is_empty() {
            continue;
        }
        let mut sums = Sums::default();
        rows.iter().for_each(|row| sums.add(row));
        match pools.last_mut() {
            Some(last) if last.sums.elements < POOL => {
                last.experts.push(expert);
                last.sums.add(&sums);
            }
            _ => pools.push(Pool { experts: vec![expert], sums }),
        }
    }
    // The last pool may be small; it joins the one before.
    if pools.len() > 1
        && let Some(last) = pools.pop_if(|last| last.sums.elements < POOL)
        && let Some(before) = pools.last_mut()
    {
        before.experts.extend(last.experts);
        before.sums.add(&last.sums);
    }
    pools
}

/// The expert that a row belongs to.
fn expert_of(offsets: &[u32], row: usize) -> usize {
    offsets.partition_point(|&first| first as usize <= row).saturating_sub(1)
}

/// `expert 3, row 2 of it (17 of all), column 5`.
fn place(offsets: &[u32], row: usize, column: usize) -> String {
    let expert = expert_of(offsets, row);
    let first = offsets.get(expert).map_or(0, |&first| first as usize);
    format!("expert {expert}, row {} of it ({row} of all), column {column}", row - first)
}

fn not_finite(out: &[bf16], at: usize, n: usize, offsets: &[u32]) -> Judgement {
    let bad = out.par_iter().filter(|value| !value.is_finite()).count();
    let unwritten = out.par_iter().filter(|value| value.to_bits() == POISON).count();
    let what = match out[at] {
        value if value.to_bits() == POISON => "was not written".into(),
        value => format!("is {value}"),
    };
    Judgement {
        max_error_over_bound: f64::INFINITY,
        elements: out.len() as u64,
        ..Judgement::failed(format!(
            "{bad} of {} elements are not finite, {unwritten} of them never written; the first, {}, {what}",
            out.len(),
            place(offsets, at / n, at % n)
        ))
    }
}

fn wrong_element(out: &[bf16], row: usize, reference: &Reference, offsets: &[u32], bound: Bound) -> String {
    let (values, abs_sums) = reference.row(row);
    let expert = expert_of(offsets, row);
    let n = reference.shape().n as usize;
    let element = |at: usize| {
        let column = reference.columns().column(expert, at);
        (column, out[row * n + column], values[at], abs_sums[at])
    };
    let ratio = |at: usize| {
        let (_, got, want, abs_sum) = element(at);
        Sums::of(got, want, abs_sum, bound).ratio
    };
    let worst = (0..values.len()).fold(0, |worst, at| if ratio(at) > ratio(worst) { at } else { worst });
    let (column, got, want, abs_sum) = element(worst);
    format!(
        "{}: got {got}, want {want:.6e}, off by {:.2} times the bound {:.3e} (half an ulp is {:.3e})",
        place(offsets, row, column),
        ratio(worst),
        bound.of(want, f64::from(abs_sum)),
        half_ulp(want.abs())
    )
}
