//! Stream the packed weights once and multiply them where they are decoded.

use std::cell::RefCell;

use half::bf16;
use rayon::prelude::*;

use super::codes::BLOCK;
use super::isa::Isa;
use super::problem::{Problem, Rows};
use super::simd::{
    self, Aligned, BLOCKS, COLUMNS, DEPTH, FloatWeights, IntegerBlock, IntegerColumns, IntegerWeights, STEP,
};
use super::tasks::{Task, split};
use super::{info, supports};
use crate::kernel::{CpuCall, CpuKernel, Engine, Kernel, KernelInfo, Scheme};
use crate::shape::Case;

/// Rows of a task.
const ROW_BLOCK: usize = 32;

/// Streams packed weights, 32 columns side by side, and decodes them in the inner loop.
pub struct Stream {
    info: KernelInfo,
    isa: Isa,
}

impl Stream {
    /// The kernel for one of the NVFP4 schemes; `isa`, which this machine must have, is what it computes with.
    pub fn new(scheme: Scheme, isa: Isa) -> Self {
        let tile = format!("{ROW_BLOCK}x{COLUMNS}x{DEPTH}");
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
        let tasks = split(problem.offsets, problem.n, out, ROW_BLOCK, COLUMNS, rayon::current_num_threads());
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| SCRATCH.with_borrow_mut(|s| self.task(&problem, task, s)));
    }
}

/// Buffers of one thread, kept from call to call.
struct Scratch {
    /// bf16 activations of the task, `[rows][row_stride(k)]`.
    floats: Vec<f32>,
    /// NVFP4 activations of the task, `[rows][k/16]`.
    integers: Vec<IntegerBlock>,
    float_weights: Box<Aligned<FloatWeights>>,
    integer_weights: Box<IntegerWeights>,
    /// `[rows][COLUMNS]`
    sums: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        floats: Vec::new(),
        integers: Vec::new(),
        float_weights: Box::new(Aligned([[0.0; COLUMNS]; STEP])),
        integer_weights: Box::new([[IntegerColumns::ZERO; 2]; BLOCKS]),
        sums: Vec::new(),
    });
}

impl Stream {
    fn task(&self, problem: &Problem<'_>, mut task: Task<'_>, scratch: &mut Scratch) {
        let (isa, k, rows) = (self.isa, problem.k, task.rows.len());
        match problem.activations {
            Rows::Bf16(_) => {
                scratch.floats.resize(rows * simd::row_stride(k), 0.0);
                simd::activations_f32(isa, problem.activations, k, task.rows.clone(), &mut scratch.floats);
            }
            Rows::Nvfp4 { values, scales, .. } => {
                scratch.integers.resize(rows * k / BLOCK, IntegerBlock::default());
                simd::activations_integers(isa, (values, scales), k, task.rows.clone(), &mut scratch.integers);
            }
        }
        let global = problem.global(task.expert);
        for first in task.columns.clone().step_by(COLUMNS) {
            let columns = COLUMNS.min(task.columns.end - first);
            let panel = problem.panel(task.expert, first, columns);
            let sums = &mut scratch.sums;
            sums.clear();
            sums.resize(rows * COLUMNS, 0.0);
            match problem.activations {
                Rows::Bf16(_) => simd::stream_f32(isa, panel, &scratch.floats, &mut scratch.float_weights.0, sums),
                Rows::Nvfp4 { .. } => {
                    simd::stream_integers(isa, panel, &scratch.integers, &mut scratch.integer_weights, sums);
                }
            }
            let at = first - task.columns.start;
            for (out, sums) in task.out.iter_mut().zip(sums.chunks(COLUMNS)) {
                simd::round(isa, &sums[..columns], global, &mut out[at..at + columns]);
            }
        }
    }
}
