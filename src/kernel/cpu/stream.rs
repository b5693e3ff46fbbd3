//! Stream the packed weights once and multiply them where they are decoded.

use std::cell::RefCell;

use half::bf16;
use rayon::prelude::*;

use super::codes::BLOCK;
use super::isa::Isa;
use super::problem::{Panel, Problem, Rows};
use super::simd::{self, IntegerBlock, IntegerWeights, LANES, WIDE};
use super::tasks::{Task, split};
use super::{info, supports};
use crate::kernel::{CpuCall, CpuKernel, Engine, Kernel, KernelInfo, Scheme};
use crate::shape::Case;

/// Rows of a task.
const ROW_BLOCK: usize = 32;

/// Streams packed weights, 16 columns side by side, and decodes them in the inner loop.
pub struct Stream {
    info: KernelInfo,
    isa: Isa,
}

impl Stream {
    /// The kernel for one of the NVFP4 schemes; `isa`, which this machine must have, is what it computes with.
    pub fn new(scheme: Scheme, isa: Isa) -> Self {
        let tile = format!("{ROW_BLOCK}x{LANES}x{}", simd::DEPTH);
        Stream { info: info(scheme, "stream", tile, concat!("moebius ", env!("CARGO_PKG_VERSION"))), isa }
    }
}

impl Kernel for Stream {
    fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn supports(&self, case: &Case) -> Result<(), String> {
        supports(case)
    }

    fn engine(&self) -> Engine<'_> {
        Engine::Cpu(self)
    }
}

impl CpuKernel for Stream {
    fn run(&self, call: &CpuCall<'_>, out: &mut [bf16]) {
        // Operands of another scheme or length leave no answer that could pass for one.
        let Some(problem) = Problem::new(self.info.scheme, call, out.len()) else { return out.fill(bf16::NAN) };
        let tasks = split(problem.offsets, problem.n, out, ROW_BLOCK, WIDE, rayon::current_num_threads());
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| SCRATCH.with_borrow_mut(|s| self.task(&problem, task, s)));
    }
}

/// Buffers of one thread, kept from call to call.
#[derive(Default)]
struct Scratch {
    /// bf16 activations of the task, `[rows][k]`.
    floats: Vec<f32>,
    /// NVFP4 activations of the task, `[rows][k/16]`.
    integers: Vec<IntegerBlock>,
    /// Decoded weights of a chunk.
    float_weights: Vec<f32>,
    /// Decoded weights of a chunk.
    integer_weights: [IntegerWeights; simd::BLOCKS],
    /// `[rows][WIDE]`
    sums: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Stream {
    fn task(&self, problem: &Problem<'_>, mut task: Task<'_>, scratch: &mut Scratch) {
        let (isa, k, rows) = (self.isa, problem.k, task.rows.len());
        match problem.activations {
            Rows::Bf16(_) => {
                scratch.floats.resize(rows * k, 0.0);
                simd::activations_f32(isa, problem.activations, k, task.rows.clone(), &mut scratch.floats);
            }
            Rows::Nvfp4 { values, scales, .. } => {
                scratch.integers.resize(rows * k / BLOCK, IntegerBlock::default());
                simd::activations_integers(isa, (values, scales), k, task.rows.clone(), &mut scratch.integers);
            }
        }
        let global = problem.global(task.expert);
        for first in task.columns.clone().step_by(WIDE) {
            let columns = WIDE.min(task.columns.end - first);
            let panel = |lane: usize| problem.panel(task.expert, first + lane, LANES.min(columns - lane));
            let (one, two): ([Panel<'_>; 1], [Panel<'_>; 2]);
            let panels: &[Panel<'_>] = if columns <= LANES {
                one = [panel(0)];
                &one
            } else {
                two = [panel(0), panel(LANES)];
                &two
            };
            scratch.sums.clear();
            scratch.sums.resize(rows * WIDE, 0.0);
            let sums = &mut scratch.sums;
            match problem.activations {
                Rows::Bf16(_) => simd::stream_f32(isa, panels, &scratch.floats, &mut scratch.float_weights, sums),
                Rows::Nvfp4 { .. } => {
                    simd::stream_integers(isa, panels, &scratch.integers, &mut scratch.integer_weights, sums);
                }
            }
            let at = first - task.columns.start;
            for (out, sums) in task.out.iter_mut().zip(sums.chunks(WIDE)) {
                simd::round(isa, &sums[..columns], global, &mut out[at..at + columns]);
            }
        }
    }
}
