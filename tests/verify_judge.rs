//! Wrong outputs are found, by which check, and right ones are not accused.

mod verify_support;

use half::bf16;
use moebius::kernel::{CpuCall, CpuKernel, Scheme};
use moebius::operands::{Activations, Weights};
use moebius::shape::GemmShape;
use moebius::verify::guard::POISON;
use moebius::verify::{
    Accumulation, GuardedOutput, Judgement, Reference, correctness_cases, judge, judge_cpu, references, verify_cpu,
};
use verify_support::{Layer, Order, Random};

/// gemm1 of GLM-5: K of 6144, few columns. gemm2: K of 256, more columns.
const DEEP: GemmShape = GemmShape { experts: 4, n: 48, k: 6144 };
const SHALLOW: GemmShape = GemmShape { experts: 4, n: 512, k: 256 };
const ROWS: [u32; 4] = [16, 0, 3, 17];

fn reference(layer: &Layer) -> Reference {
    Reference::compute(layer.shape, &layer.offsets, &layer.weights, &layer.activations).unwrap()
}

/// What a perfect kernel makes of these operands: the exact answer, rounded.
fn perfect(layer: &Layer) -> Vec<bf16> {
    reference(layer).values().iter().map(|&value| bf16::from_f64(value)).collect()
}

fn f32_judgement(out: &[bf16], layer: &Layer, reference: &Reference) -> Judgement {
    judge(out, reference, &layer.offsets, Accumulation::F32)
}

/// Judges the output of perfect kernels that read operands with a fault, in every shape, for several places of the fault.
fn judge_faults(scheme: Scheme, places: usize, fault: impl Fn(&mut Layer, &mut Random)) -> Vec<Judgement> {
    let mut judgements = Vec::new();
    for shape in [DEEP, SHALLOW] {
        let mut layer = Layer::new(scheme, shape, &ROWS, 21);
        let right = reference(&layer);
        assert_eq!(f32_judgement(&perfect(&layer), &layer, &right).failure, None);
        let mut random = Random::new(shape.k.into());
        for _ in 0..places {
            let before =
                (weights_of(&mut layer).clone(), scales_of(&mut layer).clone(), globals_of(&mut layer).clone());
            fault(&mut layer, &mut random);
            judgements.push(f32_judgement(&perfect(&layer), &layer, &right));
            (*weights_of(&mut layer), *scales_of(&mut layer), *globals_of(&mut layer)) = before;
        }
    }
    judgements
}

fn nvfp4(layer: &mut Layer) -> &mut moebius::operands::Nvfp4Weights {
    let Weights::Nvfp4(weights) = &mut layer.weights else { panic!("NVFP4 weights") };
    weights
}

fn weights_of(layer: &mut Layer) -> &mut Vec<u8> {
    &mut nvfp4(layer).values
}

fn scales_of(layer: &mut Layer) -> &mut Vec<u8> {
    &mut nvfp4(layer).scales
}

fn globals_of(layer: &mut Layer) -> &mut Vec<f32> {
    &mut nvfp4(layer).globals
}

/// An expert with 16 or 17 rows.
fn busy_expert(random: &mut Random) -> usize {
    [0, 3][random.below(2)]
}

fn assert_caught(judgements: &[Judgement], check: impl Fn(&Judgement) -> f64, what: &str) {
    for judgement in judgements {
        assert!(!judgement.is_right() && check(judgement) > 1.0, "{what}: {judgement:?}");
    }
}

#[test]
fn one_flipped_nibble_is_caught() {
    for scheme in [Scheme::Nvfp4W4a4, Scheme::Nvfp4W4a16] {
        let judgements = judge_faults(scheme, 12, |layer, random| {
            let of_expert = (layer.shape.n * layer.shape.k / 2) as usize;
            let at = busy_expert(random) * of_expert + random.below(of_expert);
            weights_of(layer)[at] ^= [0x0F, 0xF0][random.below(2)];
        });
        assert_caught(&judgements, |j| j.max_error_over_bound, "flipped nibble");
    }
}

#[test]
fn swapped_scale_bytes_are_caught() {
    let judgements = judge_faults(Scheme::Nvfp4W4a4, 12, |layer, random| {
        let of_expert = (layer.shape.n * layer.shape.k / 16) as usize;
        let start = busy_expert(random) * of_expert;
        let scales = scales_of(layer);
        // Neighbours that differ by the usual eighth or more.
        let at = loop {
            let at = start + 2 * random.below(of_expert / 2);
            if scales[at].abs_diff(scales[at + 1]) > 1 {
                break at;
            }
        };
        scales.swap(at, at + 1);
    });
    assert_caught(&judgements, |j| j.max_error_over_bound, "swapped scales");
}

#[test]
fn scales_of_the_neighbouring_expert_are_caught() {
    for expert in [0, 2, 3] {
        let judgements = judge_faults(Scheme::Nvfp4W4a4, 1, |layer, _| {
            let of_expert = (layer.shape.n * layer.shape.k / 16) as usize;
            let neighbour = (expert + 1) % 4;
            let scales = scales_of(layer);
            scales.copy_within(neighbour * of_expert..(neighbour + 1) * of_expert, expert * of_expert);
        });
        assert_caught(&judgements, |j| j.max_error_over_bound, "neighbour's scales");
        assert_caught(&judgements, |j| j.max_frobenius_over_limit, "neighbour's scales");
        for judgement in judgements {
            assert!(judgement.failure.unwrap().starts_with(&format!("expert {expert}, ")));
        }
    }
}

#[test]
fn a_global_scale_that_is_wrong_by_a_percent_is_caught_by_every_check() {
    for (expert, factor) in [(0, 1.01), (2, 0.99), (3, 1.01)] {
        let judgements = judge_faults(Scheme::Nvfp4W4a4, 1, |layer, _| globals_of(layer)[expert] *= factor);
        assert_caught(&judgements, |j| j.max_error_over_bound, "global");
        assert_caught(&judgements, |j| j.max_slope_over_limit, "global");
        assert_caught(&judgements, |j| j.max_frobenius_over_limit, "global");
    }
    // The activations' global, of all experts: even an error of one in a thousand, which is below the rounding of every
    // single output, shows in the slope.
    for factor in [1.01, 0.99, 1.001] {
        let mut layer = Layer::new(Scheme::Nvfp4W4a4, SHALLOW, &ROWS, 4);
        let right = reference(&layer);
        let Activations::Nvfp4 { globals, .. } = &mut layer.activations else { panic!("NVFP4 activations") };
        globals[0] *= factor;
        let judgement = f32_judgement(&perfect(&layer), &layer, &right);
        assert!(judgement.max_slope_over_limit > 1.0, "{factor}: {judgement:?}");
    }
}

#[test]
fn a_percent_is_caught_in_fp8_of_sm90_too() {
    for scheme in [Scheme::Fp8, Scheme::Fp8Block] {
        for shape in [GemmShape { k: 2048, ..DEEP }, SHALLOW] {
            let layer = Layer::new(scheme, shape, &ROWS, 8);
            let right = reference(&layer);
            let accumulation = Accumulation::Fp8Sm90 { promotion: 128 };
            let honest = layer.honest(Order::Fp8Sm90 { promotion: 128 });
            assert_eq!(judge(&honest, &right, &layer.offsets, accumulation).failure, None);
            let wrong: Vec<bf16> = honest.iter().map(|&x| bf16::from_f32(x.to_f32() * 1.01)).collect();
            let judgement = judge(&wrong, &right, &layer.offsets, accumulation);
            assert!(judgement.max_slope_over_limit > 1.0, "{scheme} {shape:?}: {judgement:?}");
        }
    }
}

#[test]
fn rows_and_outputs_that_were_not_written_are_caught() {
    let layer = Layer::new(Scheme::Nvfp4W4a16, SHALLOW, &ROWS, 5);
    let right = reference(&layer);
    let mut out = GuardedOutput::new(layer.rows(), layer.shape.n);
    let nothing = f32_judgement(out.output(), &layer, &right);
    let reason = nothing.failure.unwrap();
    assert!(reason.starts_with("18432 of 18432 elements are not finite, 18432 of them never written"), "{reason}");
    assert_eq!(nothing.max_error_over_bound, f64::INFINITY);

    let last_row = out.output().len() - 512;
    out.output_mut()[..last_row].copy_from_slice(&perfect(&layer)[..last_row]);
    let reason = f32_judgement(out.output(), &layer, &right).failure.unwrap();
    assert!(reason.starts_with("512 of 18432 elements"), "{reason}");
    assert!(reason.ends_with("the first, expert 3, row 16 of it (35 of all), column 0, was not written"), "{reason}");

    // Left from a run before, with other activations.
    let other = Layer::new(Scheme::Nvfp4W4a16, SHALLOW, &ROWS, 6);
    out.output_mut()[last_row..].copy_from_slice(&perfect(&other)[last_row..]);
    assert!(f32_judgement(out.output(), &layer, &right).max_error_over_bound > 1.0);
}

#[test]
fn a_write_past_the_end_is_caught() {
    let layer = Layer::new(Scheme::Nvfp4W4a16, SHALLOW, &ROWS, 5);
    let right = reference(&layer);
    let call = call(&layer);
    let mut out = GuardedOutput::new(layer.rows(), layer.shape.n);
    out.output_mut().copy_from_slice(&perfect(&layer));
    assert_eq!(judge_cpu(&out, &call, &right, Accumulation::F32).failure, None);
    // The rest of a tile of 64 rows: 60 rows behind the 36 that are there. Even zeros are writes.
    let (all, start) = out.parts_mut();
    all[start + 36 * 512..][..28 * 512].fill(bf16::ZERO);
    let judgement = judge_cpu(&out, &call, &right, Accumulation::F32);
    assert!(judgement.max_error_over_bound <= 1.0);
    let reason = judgement.failure.unwrap();
    assert_eq!(reason, "14336 elements past the end of the output were written, the first 0 behind it");
}

#[test]
fn nan_and_infinity_are_caught_anywhere() {
    let layer = Layer::new(Scheme::Nvfp4W4a16, SHALLOW, &ROWS, 5);
    let columns = moebius::verify::SampledColumns::draw(layer.shape, 8, 1);
    let sampled =
        Reference::compute_columns(layer.shape, &layer.offsets, &layer.weights, &layer.activations, columns).unwrap();
    let mut random = Random::new(2);
    for bad in [bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY, bf16::from_bits(0x7FFF), bf16::from_bits(POISON)] {
        for right in [&reference(&layer), &sampled] {
            let mut out = perfect(&layer);
            let at = random.below(out.len());
            out[at] = bad;
            let judgement = f32_judgement(&out, &layer, right);
            assert_eq!(judgement.max_error_over_bound, f64::INFINITY);
            assert!(judgement.failure.as_ref().unwrap().contains("not finite"));
            let record = serde_json::to_string(&judgement.record()).unwrap();
            let back: moebius::record::VerifyRecord = serde_json::from_str(&record).unwrap();
            assert_eq!(back.max_error_over_bound, f64::MAX, "an infinite ratio stays readable");
        }
    }
}

#[test]
fn sloppy_rounding_is_caught() {
    for shape in [DEEP, SHALLOW] {
        let layer = Layer::new(Scheme::Nvfp4W4a4, shape, &ROWS, 9);
        let right = reference(&layer);
        // Cut to bf16, instead of rounded.
        let cut = |x: f64| bf16::from_bits((f32::to_bits(x as f32) >> 16) as u16);
        let out: Vec<bf16> = right.values().iter().map(|&x| cut(x)).collect();
        let judgement = f32_judgement(&out, &layer, &right);
        assert!(judgement.max_error_over_bound > 1.5, "{judgement:?}");
        assert!(judgement.max_slope_over_limit > 1.0, "{judgement:?}");
        assert!(judgement.max_frobenius_over_limit > 1.3, "{judgement:?}");
        // Two halves of K rounded to bf16 and added in bf16, as a split-K kernel with bf16 partial sums does.
        let half = |rows: &Layer, first: bool| -> Vec<f64> {
            let Weights::Nvfp4(weights) = &rows.weights else { panic!("NVFP4 weights") };
            let mut weights = moebius::operands::Nvfp4Weights {
                values: weights.values.clone(),
                scales: weights.scales.clone(),
                globals: weights.globals.clone(),
            };
            let line = (shape.k / 16) as usize;
            for scales in weights.scales.chunks_mut(line) {
                scales[if first { line / 2..line } else { 0..line / 2 }].fill(0);
            }
            let weights = Weights::Nvfp4(weights);
            Reference::compute(shape, &rows.offsets, &weights, &rows.activations).unwrap().values().to_vec()
        };
        let (first, second) = (half(&layer, true), half(&layer, false));
        let out: Vec<bf16> = first
            .iter()
            .zip(&second)
            .map(|(&x, &y)| bf16::from_f32(bf16::from_f64(x).to_f32() + bf16::from_f64(y).to_f32()))
            .collect();
        let judgement = f32_judgement(&out, &layer, &right);
        assert!(judgement.max_error_over_bound > 1.0, "{judgement:?}");
        assert!(judgement.max_frobenius_over_limit > 1.1, "{judgement:?}");
    }
}

#[test]
fn a_dropped_tail_of_k_is_caught() {
    let judgements = judge_faults(Scheme::Nvfp4W4a4, 1, |layer, _| {
        let line = (layer.shape.k / 16) as usize;
        scales_of(layer).chunks_mut(line).for_each(|scales| scales[line - 1] = 0);
    });
    assert_caught(&judgements, |j| j.max_error_over_bound, "dropped tail");
    assert_caught(&judgements, |j| j.max_frobenius_over_limit, "dropped tail");
}

#[test]
fn honest_orders_are_never_accused() {
    let orders = [
        Order::Sequential,
        Order::Pairwise,
        Order::Blocked(16),
        Order::Blocked(128),
        Order::Lanes(16),
        Order::SplitK(4),
        Order::TensorCore { step: 16, fraction: 25, result: 23 },
        Order::TensorCore { step: 8, fraction: 24, result: 23 },
    ];
    let mut worst = Judgement::empty();
    for seed in 0..6 {
        for scheme in Scheme::ALL {
            for (shape, rows) in [
                (GemmShape { experts: 6, n: 40, k: 256 }, [9, 0, 1, 30, 2, 1]),
                (GemmShape { experts: 6, n: 7, k: 96 }, [1, 1, 0, 3, 2, 1]),
                (GemmShape { experts: 6, n: 8, k: 2048 }, [4, 0, 1, 12, 2, 1]),
            ] {
                let layer = Layer::new(scheme, shape, &rows, seed);
                let right = reference(&layer);
                for order in orders {
                    let judgement = f32_judgement(&layer.honest(order), &layer, &right);
                    assert_eq!(judgement.failure, None, "{scheme} {shape:?} {order:?} seed {seed}");
                    worst = worst.merge(judgement);
                }
            }
        }
    }
    println!("worst of honest outputs: {worst:?}");
    // Slopes of honest outputs are a few of their standard deviations away, which is a thirteenth of the limit.
    assert!(worst.max_slope_over_limit < 0.6, "{worst:?}");
}

#[test]
fn honest_fp8_of_sm90_is_never_accused() {
    let mut worst = Judgement::empty();
    for seed in 0..6 {
        for scheme in [Scheme::Fp8, Scheme::Fp8Block] {
            for (shape, rows) in [
                (GemmShape { experts: 6, n: 40, k: 256 }, [9, 0, 1, 30, 2, 1]),
                (GemmShape { experts: 6, n: 7, k: 160 }, [1, 1, 0, 3, 2, 1]),
                (GemmShape { experts: 6, n: 8, k: 2048 }, [4, 0, 1, 12, 2, 1]),
            ] {
                let layer = Layer::new(scheme, shape, &rows, seed);
                let right = reference(&layer);
                for promotion in [128, 1 << 20] {
                    let out = layer.honest(Order::Fp8Sm90 { promotion: promotion as usize });
                    let judgement = judge(&out, &right, &layer.offsets, Accumulation::Fp8Sm90 { promotion });
                    assert_eq!(judgement.failure, None, "{scheme} {shape:?} promotion {promotion} seed {seed}");
                    worst = worst.merge(judgement);
                }
            }
        }
    }
    println!("worst of honest FP8 outputs: {worst:?}");
}

#[test]
fn the_correctness_set_is_passed_by_a_perfect_kernel_in_every_scheme() {
    for case in correctness_cases() {
        for scheme in [Scheme::Nvfp4W4a4, Scheme::Bf16] {
            let layer = Layer::new(scheme, case.shape, &case.rows, case.seed);
            let judgement = f32_judgement(&perfect(&layer), &layer, &reference(&layer));
            assert_eq!(judgement.failure, None, "{} {scheme}", case.model);
            assert_eq!(judgement.elements, case.total_rows() * u64::from(case.shape.n));
        }
    }
}

fn call(layer: &Layer) -> CpuCall<'_> {
    CpuCall { shape: layer.shape, offsets: &layer.offsets, weights: &layer.weights, activations: &layer.activations }
}

/// A kernel that rounds the exact answer, and then does something to it.
struct Kernel<F>(F);

impl<F: Fn(&CpuCall<'_>, &mut [bf16]) + Send + Sync> CpuKernel for Kernel<F> {
    fn run(&self, call: &CpuCall<'_>, out: &mut [bf16]) {
        let exact = Reference::compute(call.shape, call.offsets, call.weights, call.activations).unwrap();
        out.iter_mut().zip(exact.values()).for_each(|(out, &value)| *out = bf16::from_f64(value));
        (self.0)(call, out);
    }
}

#[test]
fn cpu_kernels_are_verified_on_every_slot_and_again_after_timing() {
    let layers: Vec<Layer> = (0..3)
        .map(|slot| {
            let mut rows = ROWS;
            rows.rotate_right(slot);
            Layer::new(Scheme::Nvfp4W4a16, SHALLOW, &rows, 30 + slot as u64)
        })
        .collect();
    let slots: Vec<CpuCall<'_>> = layers.iter().map(call).collect();
    let right = references(&slots, 1).unwrap();
    let mut out = GuardedOutput::new(36, SHALLOW.n);

    let judgement = verify_cpu(&Kernel(|_: &CpuCall, _: &mut [bf16]| {}), &slots, &right, Accumulation::F32, &mut out);
    assert_eq!(judgement.failure, None);
    assert_eq!(judgement.elements, 36 * (512 + 16 + 16));

    // Right in the first slot only: it takes every later slot's scales from the expert before.
    let first = layers[0].offsets.clone();
    let wrong = Kernel(|call: &CpuCall, out: &mut [bf16]| {
        if call.offsets != first {
            out.iter_mut().for_each(|x| *x = bf16::from_f32(x.to_f32() * 1.25));
        }
    });
    let judgement = verify_cpu(&wrong, &slots, &right, Accumulation::F32, &mut out);
    let reason = judgement.failure.unwrap();
    assert!(reason.starts_with("slot 1: expert "), "{reason}");

    // Leaves the last row of each expert to whatever was there.
    let skips = Kernel(|call: &CpuCall, out: &mut [bf16]| {
        for pair in call.offsets.windows(2).filter(|pair| pair[0] < pair[1]) {
            out[(pair[1] as usize - 1) * 512..][..512].fill(bf16::from_bits(POISON));
        }
    });
    let reason = verify_cpu(&skips, &slots, &right, Accumulation::F32, &mut out).failure.unwrap();
    assert!(reason.contains("1536 of them never written"), "{reason}");

    // After timing: the last call was on slot 2.
    out.poison();
    Kernel(|_: &CpuCall, _: &mut [bf16]| {}).run(&slots[2], out.output_mut());
    assert_eq!(judge_cpu(&out, &slots[2], &right[2], Accumulation::F32).failure, None);
    assert!(!judge_cpu(&out, &slots[1], &right[1], Accumulation::F32).is_right());

    let none = verify_cpu(&wrong, &slots[..0], &[], Accumulation::F32, &mut out);
    assert!(none.failure.is_some());
    let mut small = GuardedOutput::new(35, SHALLOW.n);
    assert!(verify_cpu(&wrong, &slots, &right, Accumulation::F32, &mut small).failure.unwrap().contains("17920"));
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let layer = Layer::new(Scheme::Bf16, SHALLOW, &ROWS, 5);
    let right = reference(&layer);
    let out = perfect(&layer);
    let reason = f32_judgement(&out[1..], &layer, &right).failure.unwrap();
    assert_eq!(reason, "the output has 18431 elements, its shape has 36 rows of 512 columns");
    let reason = judge(&out, &right, &[0, 16, 16, 19, 35], Accumulation::F32).failure.unwrap();
    assert_eq!(reason, "the offsets have 35 rows, the reference 36");
    assert!(judge(&out, &right, &[0, 36], Accumulation::F32).failure.unwrap().contains("offsets"));
}
