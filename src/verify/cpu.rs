//! Verifies a kernel that runs on the processor.

use crate::kernel::{CpuCall, CpuKernel};

use super::bound::Accumulation;
use super::columns::SampledColumns;
use super::fit::ReferenceError;
use super::guard::GuardedOutput;
use super::judge::{Judgement, judge};
use super::reference::Reference;

/// Columns of every touched expert that are checked in slots after the first.
pub const SAMPLED_COLUMNS: usize = 16;

/// The references of all slots of a case, for every kernel of one scheme: the first slot in full, the others on sampled
/// columns of every expert that has rows.
///
/// # Errors
/// As [`Reference::compute`].
pub fn references(slots: &[CpuCall<'_>], seed: u64) -> Result<Vec<Reference>, ReferenceError> {
    let reference = |(at, slot): (usize, &CpuCall<'_>)| {
        if at == 0 {
            return Reference::compute(slot.shape, slot.offsets, slot.weights, slot.activations);
        }
        let columns = SampledColumns::draw(slot.shape, SAMPLED_COLUMNS, seed.wrapping_add(at as u64));
        Reference::compute_columns(slot.shape, slot.offsets, slot.weights, slot.activations, columns)
    };
    slots.iter().enumerate().map(reference).collect()
}

/// Runs the kernel on every slot, each time into poison, and judges what it wrote.
///
/// Stops after the first slot that is wrong. `references` holds one reference for each slot; `out` has the rows and
/// columns of the case.
pub fn verify_cpu(
    kernel: &dyn CpuKernel,
    slots: &[CpuCall<'_>],
    references: &[Reference],
    accumulation: Accumulation,
    out: &mut GuardedOutput,
) -> Judgement {
    if slots.is_empty() || slots.len() != references.len() {
        return Judgement::failed(format!("{} slots and {} references to verify", slots.len(), references.len()));
    }
    let mut judgement = Judgement::empty();
    for (at, (slot, reference)) in slots.iter().zip(references).enumerate() {
        let elements = reference.rows().checked_mul(slot.shape.n as usize);
        if Some(out.output().len()) != elements {
            let found = out.output().len();
            return judgement.merge(Judgement::failed(format!("slot {at}: an output of {found} elements is given")));
        }
        out.poison();
        kernel.run(slot, out.output_mut());
        let of_slot = judge_cpu(out, slot, reference, accumulation).in_slot(at);
        judgement = judgement.merge(of_slot);
        if !judgement.is_right() {
            break;
        }
    }
    judgement
}

/// Judges an output that is there already: the one that was left by the last timed call.
///
/// Poison the output before the timed calls, or an output left from verification would pass for theirs.
pub fn judge_cpu(
    out: &GuardedOutput,
    slot: &CpuCall<'_>,
    reference: &Reference,
    accumulation: Accumulation,
) -> Judgement {
    let judgement = judge(out.output(), reference, slot.offsets, accumulation);
    match out.check() {
        Ok(()) => judgement,
        // Writing outside is worse than any value, so it is said first.
        Err(reason) => Judgement { failure: None, ..judgement }.merge(Judgement::failed(reason)),
    }
}
