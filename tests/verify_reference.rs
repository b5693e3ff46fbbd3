//! The reference against a plain sum over values that another encoder knows, in every scheme.

mod verify_support;

use moebius::kernel::Scheme;
use moebius::operands::{Activations, Weights};
use moebius::shape::GemmShape;
use moebius::verify::{Columns, Reference, ReferenceError, SampledColumns, quantisation_error};
use verify_support::Layer;

/// Empty experts, one with many rows, N and K that are no multiples of panels.
fn layer(scheme: Scheme, k: u32) -> Layer {
    let shape = GemmShape { experts: 6, n: 139, k };
    Layer::new(scheme, shape, &[1, 0, 7, 70, 0, 4], 11)
}

#[test]
fn agrees_with_the_plain_sum_in_every_scheme() {
    for scheme in Scheme::ALL {
        for k in [32, 224, 1120] {
            let layer = layer(scheme, k);
            let reference =
                Reference::compute(layer.shape, &layer.offsets, &layer.weights, &layer.activations).unwrap();
            for row in 0..layer.rows() {
                for column in 0..layer.shape.n as usize {
                    let (value, magnitude) = layer.exact(row, column);
                    let at = row * layer.shape.n as usize + column;
                    let (got, got_magnitude) = (reference.values()[at], f64::from(reference.abs_sums()[at]));
                    assert!((got - value).abs() <= 1e-13 * magnitude, "{scheme} {row} {column}: {got} {value}");
                    assert!(
                        got_magnitude >= magnitude && got_magnitude <= magnitude * 1.000_006,
                        "{scheme} {row} {column}: {got_magnitude} {magnitude}"
                    );
                }
            }
        }
    }
}

#[test]
fn an_activation_global_per_expert_is_used() {
    let mut layer = layer(Scheme::Nvfp4W4a4, 224);
    let Activations::Nvfp4 { globals, .. } = &mut layer.activations else { panic!("NVFP4 activations") };
    *globals = (0..6).map(|e| globals[0] * (1.0 + e as f32)).collect();
    let reference = Reference::compute(layer.shape, &layer.offsets, &layer.weights, &layer.activations).unwrap();
    for (row, column) in [(0, 0), (5, 138), (78, 3), (81, 100)] {
        let (value, magnitude) = layer.exact(row, column);
        assert!((reference.values()[row * 139 + column] - value).abs() <= 1e-13 * magnitude);
    }
}

#[test]
fn sampled_columns_hold_the_same_numbers() {
    let layer = layer(Scheme::Nvfp4W4a16, 224);
    let all = Reference::compute(layer.shape, &layer.offsets, &layer.weights, &layer.activations).unwrap();
    let columns = SampledColumns::draw(layer.shape, 9, 3);
    let some =
        Reference::compute_columns(layer.shape, &layer.offsets, &layer.weights, &layer.activations, columns.clone())
            .unwrap();
    for row in 0..layer.rows() {
        for (place, &column) in columns.of(layer.expert_of(row)).iter().enumerate() {
            let (here, there) = (row * 9 + place, row * 139 + column as usize);
            assert_eq!(some.values()[here], all.values()[there]);
            assert_eq!(some.abs_sums()[here], all.abs_sums()[there]);
        }
    }
}

#[test]
fn quantisation_errors_are_those_of_the_formats() {
    // Relative errors of one operand are known to be near 0.095 for NVFP4 and 0.026 for e4m3 on normal data; two
    // operands add in squares.
    for (scheme, least, most) in [
        (Scheme::Bf16, 0.0, 0.0),
        (Scheme::Fp8, 0.03, 0.05),
        (Scheme::Fp8Block, 0.03, 0.05),
        (Scheme::Nvfp4W4a16, 0.08, 0.11),
        (Scheme::Nvfp4W4a4, 0.12, 0.15),
        (Scheme::Mxfp4W4a8, 0.1, 0.16),
    ] {
        let layer = layer(scheme, 1120);
        let columns = SampledColumns::draw(layer.shape, 32, 3);
        let bf16 = Layer::quantise(
            Scheme::Bf16,
            layer.shape,
            layer.offsets.clone(),
            layer.original_w.clone(),
            layer.original_a.clone(),
        );
        let of = |layer: &Layer| {
            let columns = columns.clone();
            Reference::compute_columns(layer.shape, &layer.offsets, &layer.weights, &layer.activations, columns)
                .unwrap()
        };
        let error = quantisation_error(&of(&layer), &of(&bf16)).unwrap();
        assert!((least..=most).contains(&error), "{scheme}: {error}");

        let n = layer.shape.n as usize;
        let fill = |from: &[half::bf16], line: &mut [f64]| {
            line.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f64());
        };
        let (Weights::Bf16(w), Activations::Bf16(a)) = (&bf16.weights, &bf16.activations) else { panic!("bf16") };
        let on_demand = Reference::compute_with(
            layer.shape,
            &layer.offsets,
            Columns::Sampled(columns.clone()),
            |expert, column, line| fill(&w[(expert * n + column) * 1120..], line),
            |row, _, line| fill(&a[row * 1120..], line),
        );
        assert_eq!(on_demand.unwrap(), of(&bf16));
    }
}

#[test]
fn operands_that_do_not_fit_are_refused_in_a_sentence() {
    let mut layer = layer(Scheme::Nvfp4W4a4, 224);
    let compute = |layer: &Layer| {
        Reference::compute(layer.shape, &layer.offsets, &layer.weights, &layer.activations).unwrap_err()
    };
    layer.shape.k = 240;
    assert!(matches!(compute(&layer), ReferenceError::Length { operand: "NVFP4 weights", .. }));
    layer.shape.k = 216;
    assert_eq!(compute(&layer), ReferenceError::Group { k: 216, group: 16 });
    layer.shape.k = 0;
    assert_eq!(compute(&layer).to_string(), "the shape 6 x 139 x 0 (experts, N, K) has a zero");
    layer.shape.k = 224;
    layer.offsets[2] = 9;
    assert_eq!(compute(&layer).to_string(), "offsets must be 6 + 1 ascending numbers from 0; found 9 before 8");
    layer.offsets[2] = 1;
    let Activations::Nvfp4 { scales, .. } = &mut layer.activations else { panic!("NVFP4 activations") };
    scales[14 * 8 + 3] = 0x7F;
    assert!(matches!(compute(&layer), ReferenceError::NotRepresentable { row: 8, place: 0, .. }));
}
