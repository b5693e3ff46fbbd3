//! The accumulation term of the bound against simulated arithmetic: no honest order of summation exceeds it, and it is not
//! so wide that an error of 1% could hide.

mod verify_support;

use moebius::kernel::Scheme;
use moebius::shape::GemmShape;
use moebius::verify::{Accumulation, Bound};
use verify_support::{Layer, Order, Random, sum};

/// RTX Blackwell, Blackwell and Hopper with 16-bit operands.
const TENSOR_16: Order = Order::TensorCore { step: 16, fraction: 25, result: 23 };
/// Ampere with 16-bit operands: 8 products at a time and a bit less.
const TENSOR_AMPERE: Order = Order::TensorCore { step: 8, fraction: 24, result: 23 };

/// Largest and root mean square of `error / A`, and the mean of `error * sign(answer) / |answer|`.
#[derive(Debug, Default)]
struct Found {
    elements: f64,
    largest: f64,
    squares: f64,
    along: f64,
    answers: f64,
}

impl Found {
    fn add(&mut self, error: f64, allowed: f64, answer: f64) {
        let ratio = error.abs() / allowed;
        self.elements += 1.0;
        self.largest = self.largest.max(ratio);
        self.squares += ratio * ratio;
        self.along += error * answer;
        self.answers += answer * answer;
    }

    fn rms(&self) -> f64 {
        (self.squares / self.elements).sqrt()
    }

    /// Slope of errors on answers.
    fn drift(&self) -> f64 {
        self.along / self.answers
    }
}

fn measure(scheme: Scheme, k: u32, elements: u32, order: Order, accumulation: Accumulation) -> Found {
    let shape = GemmShape { experts: 1, n: 16, k };
    let layer = Layer::new(scheme, shape, &[elements / 16], u64::from(k));
    let bound = Bound::new(shape, accumulation);
    let mut found = Found::default();
    for row in 0..layer.rows() {
        for column in 0..16 {
            let (answer, magnitude) = layer.exact(row, column);
            let error = f64::from(layer.element(row, column, order)) - answer;
            found.add(error, bound.accumulation(magnitude), answer);
        }
    }
    println!(
        "{scheme} K {k} {order:?}: largest {:.4} rms {:.5} of A, drift {:.2e} of {:.2e} allowed",
        found.largest,
        found.rms(),
        found.drift(),
        bound.drift()
    );
    found
}

#[test]
fn f32_orders_stay_far_below_the_term() {
    let orders = [
        Order::Sequential,
        Order::Pairwise,
        Order::Blocked(16),
        Order::Blocked(64),
        Order::Blocked(128),
        Order::Lanes(16),
        Order::SplitK(4),
        TENSOR_16,
        TENSOR_AMPERE,
    ];
    for scheme in [Scheme::Bf16, Scheme::Nvfp4W4a4, Scheme::Nvfp4W4a16, Scheme::Mxfp4W4a8, Scheme::Fp8Block] {
        for (k, elements) in [(256, 8192), (6144, 1024)] {
            for order in orders {
                let found = measure(scheme, k, elements, order, Accumulation::F32);
                hold_to_term(&found, Accumulation::F32, k);
            }
        }
    }
}

#[test]
fn sums_of_one_sign_stay_below_the_term() {
    // The worst data for roundings: partial sums grow evenly to the sum of magnitudes.
    let mut random = Random::new(5);
    for k in [256usize, 6144] {
        let bound = Bound::new(GemmShape { experts: 1, n: 1, k: k as u32 }, Accumulation::F32);
        for order in [Order::Sequential, Order::Blocked(16), Order::Lanes(16), Order::SplitK(4)] {
            let mut found = Found::default();
            for _ in 0..4_000_000 / k {
                let a: Vec<f32> = random.normals(k, 1.0).iter().map(|x| x.abs()).collect();
                let b: Vec<f32> = random.normals(k, 1.0).iter().map(|x| x.abs()).collect();
                let answer: f64 = a.iter().zip(&b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
                found.add(f64::from(sum(&a, &b, order)) - answer, bound.accumulation(answer), answer);
            }
            println!("one sign, K {k} {order:?}: largest {:.4} rms {:.5} of A", found.largest, found.rms());
            assert!(found.largest < 1.0, "K {k} {order:?}: {found:?}");
        }
    }
}

#[test]
fn fp8_of_sm90_stays_below_its_term() {
    for scheme in [Scheme::Fp8, Scheme::Fp8Block] {
        for (k, elements) in [(128, 32768), (256, 16384), (2048, 2048), (6144, 1024)] {
            let accumulation = Accumulation::Fp8Sm90 { promotion: 128 };
            let found = measure(scheme, k, elements, Order::Fp8Sm90 { promotion: 128 }, accumulation);
            hold_to_term(&found, accumulation, k);
        }
    }
    for k in [256, 2048, 6144] {
        let accumulation = Accumulation::Fp8Sm90 { promotion: u32::MAX };
        let found = measure(Scheme::Fp8, k, 1024, Order::Fp8Sm90 { promotion: 1 << 20 }, accumulation);
        hold_to_term(&found, accumulation, k);
    }
}

fn hold_to_term(found: &Found, accumulation: Accumulation, k: u32) {
    let share = accumulation.relative_rms(k) / accumulation.relative_error(k);
    assert!(found.largest < 0.5, "{accumulation:?} K {k}: {found:?}");
    assert!(found.rms() < 0.8 * share, "{accumulation:?} K {k}: {found:?}, {share} allowed");
    assert!(found.drift().abs() < accumulation.drift(k), "{accumulation:?} K {k}: {found:?}");
}

#[test]
fn an_error_of_one_percent_exceeds_the_bound_of_many_elements() {
    for (scheme, accumulation, least) in
        [(Scheme::Nvfp4W4a4, Accumulation::F32, 0.9), (Scheme::Fp8, Accumulation::Fp8Sm90 { promotion: 128 }, 0.6)]
    {
        let shape = GemmShape { experts: 1, n: 64, k: 6144 };
        let layer = Layer::new(scheme, shape, &[8], 3);
        let bound = Bound::new(shape, accumulation);
        let exceeds = |at: usize| {
            let (answer, magnitude) = layer.exact(at / 64, at % 64);
            0.01 * answer.abs() > bound.of(answer, magnitude)
        };
        let share = (0..512).filter(|&at| exceeds(at)).count() as f64 / 512.0;
        println!("{scheme}: 1% exceeds the bound of {:.1} % of elements", share * 100.0);
        assert!(share > least, "{scheme}: {share}");
    }
}
