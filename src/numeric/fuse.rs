//! One NVFP4 gate-up matrix of a gate and an up matrix whose globals differ.
//!
//! A grouped GEMM applies one global per expert, so gate and up must share it. Taking either global for both, as is, gives
//! a wrong answer; here the block scales are expressed under the larger of the two (the smaller would overflow ue4m3).
//! Where the new scale is exact (equal globals, or a power of two apart and no underflow) nothing changes but the scale
//! byte; elsewhere the block is quantised again from its decoded values, and the report says how much that cost.

use super::nvfp4::{BLOCK, Nvfp4Tensor};
use super::{GlobalMultiplier, QuantiseError, e2m1, ue4m3};

/// What to do with blocks that have no exact scale under the common global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusePolicy {
    /// Refuse.
    ExactOnly,
    /// Quantise them again.
    Requantise,
}

/// What fusing changed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FuseReport {
    /// Blocks whose values are unchanged.
    pub exact_blocks: usize,
    /// Blocks quantised again.
    pub requantised_blocks: usize,
    /// Largest change of a value over the largest magnitude of its block.
    pub max_relative_change: f64,
}

/// Puts the rows of `gate` before those of `up`, both of expert `expert` (named in errors), under one global.
///
/// # Errors
/// [`QuantiseError::Fuse`] under [`FusePolicy::ExactOnly`] when a block would change; [`QuantiseError::Length`] when
/// values and scales of a matrix do not fit each other.
pub fn fuse_gate_up(
    gate: &Nvfp4Tensor,
    up: &Nvfp4Tensor,
    expert: usize,
    policy: FusePolicy,
) -> Result<(Nvfp4Tensor, FuseReport), QuantiseError> {
    let global = if gate.global >= up.global { gate.global } else { up.global };
    let mut fused = Nvfp4Tensor {
        values: Vec::with_capacity(gate.values.len() + up.values.len()),
        scales: Vec::with_capacity(gate.scales.len() + up.scales.len()),
        global,
    };
    let mut report = FuseReport::default();
    for part in [gate, up] {
        super::error::check_len("the values", part.values.len(), part.scales.len() * (BLOCK / 2))?;
        for (codes, &scale) in part.values.chunks_exact(BLOCK / 2).zip(&part.scales) {
            let (codes, scale, change) = rescale(codes, scale, part.global, global);
            fused.values.extend_from_slice(&codes);
            fused.scales.push(scale);
            match change {
                None => report.exact_blocks += 1,
                Some(change) => {
                    report.requantised_blocks += 1;
                    report.max_relative_change = report.max_relative_change.max(change);
                }
            }
        }
    }
    if policy == FusePolicy::ExactOnly && report.requantised_blocks > 0 {
        return Err(QuantiseError::Fuse {
            expert,
            gate: gate.global.get(),
            up: up.global.get(),
            blocks: report.requantised_blocks,
        });
    }
    Ok((fused, report))
}

/// One block under another global: codes, scale, and the relative change when it is not exact.
fn rescale(codes: &[u8], scale: u8, from: GlobalMultiplier, to: GlobalMultiplier) -> ([u8; 8], u8, Option<f64>) {
    // Products of a 4-bit and a 24-bit significand: exact in f64.
    let old_step = f64::from(ue4m3::decode(scale)) * f64::from(from.get());
    let new_scale = ue4m3::encode((old_step / f64::from(to.get())) as f32);
    let new_step = f64::from(ue4m3::decode(new_scale)) * f64::from(to.get());
    let mut out = [0; 8];
    if new_step == old_step {
        out.copy_from_slice(codes);
        return (out, new_scale, None);
    }
    let mut amax = 0f64;
    let mut worst = 0f64;
    for (out, &byte) in out.iter_mut().zip(codes) {
        for (half, code) in [byte & 15, byte >> 4].into_iter().enumerate() {
            let old = f64::from(e2m1::decode(code)) * old_step;
            let new = if new_step == 0.0 { code & 8 } else { e2m1::encode((old / new_step) as f32) };
            *out |= new << (4 * half);
            amax = amax.max(old.abs());
            worst = worst.max((f64::from(e2m1::decode(new)) * new_step - old).abs());
        }
    }
    // A block of zeros under a scale that is not exact does not change.
    (out, new_scale, if amax == 0.0 { None } else { Some(worst / amax) })
}

#[cfg(test)]
mod tests {
    use super::super::nvfp4::{dequantise_into, quantise};
    use super::*;

    fn tensor(factor: f32) -> Nvfp4Tensor {
        let x: Vec<f32> = (0..256).map(|i| ((i * 37 % 101) as f32 - 50.0) * factor).collect();
        quantise(&x, 32).unwrap()
    }

    fn decoded(t: &Nvfp4Tensor) -> Vec<f32> {
        let mut out = vec![0.0; t.values.len() * 2];
        dequantise_into(&t.values, &t.scales, t.global, &mut out).unwrap();
        out
    }

    #[test]
    fn equal_globals_concatenate() {
        let t = tensor(1.0);
        let (fused, report) = fuse_gate_up(&t, &t, 0, FusePolicy::ExactOnly).unwrap();
        assert_eq!(report, FuseReport { exact_blocks: 32, requantised_blocks: 0, max_relative_change: 0.0 });
        assert_eq!(decoded(&fused), [decoded(&t), decoded(&t)].concat());
    }

    #[test]
    fn powers_of_two_apart_are_exact() {
        let (gate, up) = (tensor(0.25), tensor(1.0));
        assert_ne!(gate.global, up.global);
        let (fused, report) = fuse_gate_up(&gate, &up, 0, FusePolicy::ExactOnly).unwrap();
        assert_eq!(report.requantised_blocks, 0);
        assert_eq!(fused.global, up.global);
        assert_eq!(decoded(&fused), [decoded(&gate), decoded(&up)].concat());
    }

    #[test]
    fn other_ratios_are_refused_or_requantised() {
        let (gate, up) = (tensor(1.0), tensor(0.7));
        let e = fuse_gate_up(&gate, &up, 5, FusePolicy::ExactOnly).unwrap_err().to_string();
        assert!(e.starts_with("gate and up of expert 5 have globals"), "{e}");
        let (fused, report) = fuse_gate_up(&gate, &up, 5, FusePolicy::Requantise).unwrap();
        assert!(report.requantised_blocks > 0 && report.exact_blocks >= 16);
        // The scale moves by at most 1/16, the top code then by as much.
        assert!(report.max_relative_change > 0.0 && report.max_relative_change < 1.0 / 6.0, "{report:?}");
        let (new, old) = (decoded(&fused), [decoded(&gate), decoded(&up)].concat());
        assert_eq!(new[..256], old[..256]);
        let worst = new.iter().zip(&old).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(worst > 0.0 && worst < 50.0 / 6.0);
    }

    #[test]
    fn a_vanishing_scale_keeps_signs_and_is_reported() {
        let mut gate = tensor(1.0);
        gate.scales.fill(1);
        let up = Nvfp4Tensor { global: GlobalMultiplier::new(gate.global.get() * 1024.0).unwrap(), ..tensor(1.0) };
        let (fused, report) = fuse_gate_up(&gate, &up, 0, FusePolicy::Requantise).unwrap();
        assert_eq!(fused.scales[0], 0);
        assert_eq!(fused.values[0] & 0x77, 0);
        assert_eq!(report.max_relative_change, 1.0);
    }

    #[test]
    fn refuses_lengths_that_do_not_fit() {
        let mut bad = tensor(1.0);
        bad.values.pop();
        assert!(fuse_gate_up(&bad, &tensor(1.0), 0, FusePolicy::Requantise).is_err());
    }
}
