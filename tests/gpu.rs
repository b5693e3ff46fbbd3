//! What only a GPU can show. `cargo test --test gpu -- --ignored --test-threads=1` runs it where the GPU is;
//! `tools/pack-gpu-tests` packs it for a machine without cargo.

use half::bf16;
use moebius::device::abi::moebius_shape;
use moebius::device::cuda::{Addresses, Buffer, Cuda, DeviceError, Graph, Parts, Plan, Support, Unit, capture};
use moebius::kernel::{Engine, Scheme, cuda_kernels};
use moebius::operands::{ActivationGlobals, Activations, Weights, generate_activations, generate_weights};
use moebius::shape::GemmShape;
use moebius::sweep::{DeviceActivations, DeviceWeights, Output, accumulation, gpu_reference};
use moebius::verify::{Columns, Reference, SampledColumns, guard, judge};

const SEED: u64 = 20;

/// Experts without rows, with one and with many; N is no multiple of any tile or block.
const SHAPE: GemmShape = GemmShape { experts: 7, n: 200, k: 1056 };
const OFFSETS: [u32; 8] = [0, 1, 1, 8, 78, 78, 90, 90];

fn gpu() -> Cuda {
    Cuda::open(0).expect("a GPU")
}

fn support(cuda: &Cuda) -> Support<'_> {
    Support::new(cuda).expect("a build with CUDA code")
}

fn upload(cuda: &Cuda, offsets: &[u32]) -> Buffer {
    let bytes: Vec<u8> = offsets.iter().flat_map(|v| v.to_ne_bytes()).collect();
    Buffer::from_host(cuda, &bytes, "the offsets").expect("memory")
}

fn assert_same_weights(made: &Weights, expected: &Weights, what: &str) {
    let same = match (made, expected) {
        (Weights::Nvfp4(a), Weights::Nvfp4(b)) => {
            assert_eq!(bits(&a.globals), bits(&b.globals), "{what}: globals");
            assert!(a.scales == b.scales, "{what}: scales");
            a.values == b.values
        }
        (Weights::Mxfp4 { values, scales }, Weights::Mxfp4 { values: v, scales: s }) => values == v && scales == s,
        (Weights::Fp8Block { values, scales }, Weights::Fp8Block { values: v, scales: s })
        | (Weights::Fp8 { values, scales }, Weights::Fp8 { values: v, scales: s }) => {
            assert_eq!(bits(scales), bits(s), "{what}: scales");
            values == v
        }
        (Weights::Bf16(a), Weights::Bf16(b)) => half_bits(a) == half_bits(b),
        _ => panic!("{what}: two formats"),
    };
    assert!(same, "{what}: values");
}

fn assert_same_activations(made: &Activations, expected: &Activations, what: &str) {
    let same = match (made, expected) {
        (Activations::Nvfp4 { values, scales, globals }, Activations::Nvfp4 { values: v, scales: s, globals: g }) => {
            assert_eq!(bits(globals), bits(g), "{what}: globals");
            values == v && scales == s
        }
        (Activations::Mxfp8 { values, scales }, Activations::Mxfp8 { values: v, scales: s }) => {
            values == v && scales == s
        }
        (Activations::Fp8Group { values, scales }, Activations::Fp8Group { values: v, scales: s }) => {
            assert_eq!(bits(scales), bits(s), "{what}: scales");
            values == v
        }
        (Activations::Fp8 { values, scale }, Activations::Fp8 { values: v, scale: s }) => {
            assert_eq!(scale.to_bits(), s.to_bits(), "{what}: scale");
            values == v
        }
        (Activations::Bf16(a), Activations::Bf16(b)) => half_bits(a) == half_bits(b),
        _ => panic!("{what}: two formats"),
    };
    assert!(same, "{what}: values");
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn half_bits(values: &[bf16]) -> Vec<u16> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
#[ignore = "needs a GPU"]
fn weights_made_on_the_device_are_those_of_the_host_bit_for_bit() {
    let cuda = gpu();
    for scheme in Scheme::ALL {
        // The second has more blocks of threads than a grid, and several rows of FP8 blocks.
        for (shape, layer) in [(SHAPE, 0), (GemmShape { experts: 5, n: 1030, k: 4128 }, 3)] {
            let expected = generate_weights(shape, scheme, SEED, layer).expect("weights");
            let made = DeviceWeights::generate(&cuda, support(&cuda), shape, scheme, SEED, layer).expect("weights");
            assert_same_weights(&made.download(&cuda).expect("a copy"), &expected, &format!("{scheme} {shape:?}"));
        }
    }
    // FP8 and bf16 take any k.
    let odd = GemmShape { experts: 3, n: 5, k: 131 };
    for scheme in [Scheme::Fp8Block, Scheme::Fp8, Scheme::Bf16] {
        let expected = generate_weights(odd, scheme, SEED, 0).expect("weights");
        let made = DeviceWeights::generate(&cuda, support(&cuda), odd, scheme, SEED, 0).expect("weights");
        assert_same_weights(&made.download(&cuda).expect("a copy"), &expected, &format!("{scheme} {odd:?}"));
    }
}

#[test]
#[ignore = "needs a GPU"]
fn activations_made_on_the_device_are_those_of_the_host_bit_for_bit() {
    let cuda = gpu();
    let rows = OFFSETS[7];
    for scheme in Scheme::ALL {
        for globals in [ActivationGlobals::PerLayer, ActivationGlobals::PerExpert { offsets: &OFFSETS }] {
            let expected = generate_activations(rows, SHAPE.k, scheme, SEED, globals).expect("activations");
            let made = DeviceActivations::generate(&cuda, support(&cuda), rows, SHAPE.k, scheme, SEED, globals);
            let made = made.expect("activations").download(&cuda).expect("a copy");
            assert_same_activations(&made, &expected, &format!("{scheme} {globals:?}"));
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn operands_that_cannot_be_made_are_refused_as_on_the_host() {
    let cuda = gpu();
    let odd = GemmShape { k: 1055, ..SHAPE };
    let on_host = generate_weights(odd, Scheme::Nvfp4W4a16, SEED, 0).expect_err("no blocks of 16").to_string();
    let made = DeviceWeights::generate(&cuda, support(&cuda), odd, Scheme::Nvfp4W4a16, SEED, 0);
    assert_eq!(made.err().expect("no blocks of 16").to_string(), on_host);
}

/// Operands of a scheme on the device, and where they are.
struct Operands {
    weights: DeviceWeights,
    activations: DeviceActivations,
    output: Output,
}

impl Operands {
    fn new(cuda: &Cuda, shape: GemmShape, rows: u32, scheme: Scheme, globals: ActivationGlobals<'_>) -> Self {
        let support = support(cuda);
        Operands {
            weights: DeviceWeights::generate(cuda, support, shape, scheme, SEED, 0).expect("weights"),
            activations: DeviceActivations::generate(cuda, support, rows, shape.k, scheme, SEED, globals)
                .expect("activations"),
            output: Output::new(cuda, rows.into(), shape.n).expect("memory"),
        }
    }

    fn at(&self, cuda: &Cuda, offsets: &Buffer) -> Addresses {
        let mut at = Addresses { offsets: offsets.address(cuda), ..Addresses::default() };
        self.weights.enter(cuda, &mut at);
        self.activations.enter(cuda, &mut at);
        at.out = self.output.address(cuda);
        at
    }
}

fn abi(cuda: &Cuda, shape: GemmShape, rows: u32, act_globals: u32) -> moebius_shape {
    let GemmShape { experts, n, k } = shape;
    moebius_shape { experts, n, k, rows, sm_count: cuda.info().sm_count, act_globals }
}

#[test]
#[ignore = "needs a GPU"]
fn the_reference_kernel_agrees_with_the_reference_of_the_host() {
    let cuda = gpu();
    let rows = OFFSETS[7];
    for scheme in Scheme::ALL {
        for globals in [ActivationGlobals::PerLayer, ActivationGlobals::PerExpert { offsets: &OFFSETS }] {
            let per_expert = matches!(globals, ActivationGlobals::PerExpert { .. });
            if per_expert && scheme != Scheme::Nvfp4W4a4 {
                continue;
            }
            let weights = generate_weights(SHAPE, scheme, SEED, 0).expect("weights");
            let activations = generate_activations(rows, SHAPE.k, scheme, SEED, globals).expect("activations");
            let operands = Operands::new(&cuda, SHAPE, rows, scheme, globals);
            let offsets = upload(&cuda, &OFFSETS);
            let shape = abi(&cuda, SHAPE, rows, if per_expert { SHAPE.experts } else { 1 });
            for columns in [Columns::All, Columns::Sampled(SampledColumns::draw(SHAPE, 9, 3))] {
                let expected = match &columns {
                    Columns::All => Reference::compute(SHAPE, &OFFSETS, &weights, &activations),
                    Columns::Sampled(some) => {
                        Reference::compute_columns(SHAPE, &OFFSETS, &weights, &activations, some.clone())
                    }
                }
                .expect("a reference");
                let at = operands.at(&cuda, &offsets);
                let made = gpu_reference(&cuda, support(&cuda), &shape, scheme, &at, 70, columns).expect("a reference");
                assert_eq!(made.values().len(), expected.values().len());
                for (i, (a, b)) in made.values().iter().zip(expected.values()).enumerate() {
                    let (sum, expected_sum) = (f64::from(made.abs_sums()[i]), f64::from(expected.abs_sums()[i]));
                    assert!((a - b).abs() <= 1e-12 * expected_sum, "{scheme} element {i}: {a} and {b}");
                    assert!((sum / expected_sum - 1.0).abs() < 1e-5, "{scheme} element {i}: {sum} and {expected_sum}");
                }
            }
        }
    }
}

/// A graph of one call of a kernel, with all that it points into.
struct Captured {
    graph: Graph,
    unit: Unit,
    shape: moebius_shape,
    at: Addresses,
    _plan: Plan,
    _buffers: Vec<Buffer>,
}

impl Captured {
    fn new(cuda: &Cuda, unit: Unit, shape: moebius_shape, mut at: Addresses) -> Result<Self, DeviceError> {
        let sizes = unit.sizes(&shape)?;
        let mut buffers = Vec::new();
        for (bytes, address) in [
            (sizes.packed_weights, &mut at.packed_weights),
            (sizes.packed_activations, &mut at.packed_activations),
            (sizes.workspace, &mut at.workspace),
        ] {
            if bytes > 0 {
                let buffer = Buffer::new(cuda, bytes, "a buffer of the kernel")?;
                *address = buffer.address(cuda);
                buffers.push(buffer);
            }
        }
        if sizes.packed_weights > 0 {
            unit.pack_weights(cuda, &shape, &at)?;
        }
        if sizes.packed_activations > 0 {
            unit.pack_activations(cuda, &shape, &at)?;
        }
        let plan = unit.plan(cuda, &shape, &at)?;
        cuda.synchronize()?;
        let graph = capture(cuda, || Ok(plan.run(cuda, Parts::All, false)?))?;
        Ok(Captured { graph, unit, shape, at, _plan: plan, _buffers: buffers })
    }

    /// Replays with the routing that is on the device now. A layout of the activations that depends on the routing is made
    /// anew, as whoever quantises them would.
    fn replay(&self, cuda: &Cuda) -> Result<(), DeviceError> {
        if self.at.packed_activations != 0 {
            self.unit.pack_activations(cuda, &self.shape, &self.at)?;
        }
        self.graph.launch()?;
        cuda.synchronize()
    }
}

#[test]
#[ignore = "needs a GPU"]
fn a_replayed_graph_follows_routing_rewritten_on_the_device() {
    let cuda = gpu();
    let shape = GemmShape { experts: 8, n: 384, k: 1024 };
    // As many rows each time: spread, all in one expert, none in the first ones, and spread again.
    let routings: [[u32; 9]; 4] = [
        [0, 3, 3, 20, 21, 40, 44, 48, 64],
        [0, 0, 0, 0, 0, 64, 64, 64, 64],
        [0, 0, 0, 0, 0, 0, 1, 32, 64],
        [0, 3, 3, 20, 21, 40, 44, 48, 64],
    ];
    let kernels = cuda_kernels(cuda.info());
    assert!(!kernels.is_empty(), "this build has no kernel for {}", cuda.info().arch());
    let mut families = std::collections::BTreeSet::new();
    for scheme in Scheme::ALL {
        let of_scheme: Vec<_> = kernels.iter().filter(|kernel| kernel.info().scheme == scheme).collect();
        if of_scheme.is_empty() {
            continue;
        }
        let mut operands = Operands::new(&cuda, shape, 64, scheme, ActivationGlobals::PerLayer);
        let described = abi(&cuda, shape, 64, 1);
        let on_device: Vec<Buffer> = routings.iter().map(|offsets| upload(&cuda, offsets)).collect();
        let references: Vec<Reference> = on_device
            .iter()
            .map(|offsets| {
                let at = operands.at(&cuda, offsets);
                gpu_reference(&cuda, support(&cuda), &described, scheme, &at, 64, Columns::All).expect("a reference")
            })
            .collect();
        for kernel in of_scheme {
            let Engine::Cuda(unit) = kernel.engine() else { continue };
            let mut offsets = upload(&cuda, &routings[0]);
            if let Err(refused) = unit.supports(&described) {
                println!("{}: {refused:?}", kernel.info().id);
                continue;
            }
            let captured =
                Captured::new(&cuda, unit, described, operands.at(&cuda, &offsets)).expect("a captured call");
            for (step, (routing, reference)) in routings.iter().zip(&references).enumerate() {
                offsets.copy_from(&cuda, &on_device[step]).expect("a copy");
                operands.output.poison(&cuda).expect("poison");
                captured.replay(&cuda).expect("a replay");
                let whole = operands.output.download(&cuda).expect("a copy");
                let out = &whole[operands.output.guard()..whole.len() - operands.output.guard()];
                let arithmetic = accumulation(scheme, cuda.info().compute_capability);
                let judgement = judge::judge(out, reference, routing, arithmetic);
                assert!(judgement.is_right(), "{} routing {step}: {:?}", kernel.info().id, judgement.failure);
                let (before, after) =
                    (&whole[..operands.output.guard()], &whole[whole.len() - operands.output.guard()..]);
                assert_eq!(guard::check_guards(before, after), Ok(()), "{} routing {step}", kernel.info().id);
            }
            let id = kernel.info().id.to_string();
            families.insert(id.rsplit_once('/').map_or(id.clone(), |(family, _)| family.to_owned()));
        }
    }
    println!("replays follow the routing: {families:?}");
    assert!(!families.is_empty(), "no kernel took the shape");
}

#[test]
#[ignore = "needs a GPU"]
fn too_little_free_memory_is_one_sentence() {
    let cuda = gpu();
    let free = cuda.free_bytes().expect("free memory");
    let error = Buffer::new(&cuda, free, "the weights").err().expect("more than there is").to_string();
    assert!(error.contains("the weights needs") && error.contains("MiB are free"), "{error}");
    assert!(!error.contains('\n') && !error.ends_with('.'), "{error}");
    // The device is as usable as before.
    Buffer::new(&cuda, 1 << 20, "a buffer").expect("a MiB");
}
