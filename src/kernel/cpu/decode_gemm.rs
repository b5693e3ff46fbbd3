//! Decode, then multiply: a panel of weights becomes f32 in cache, and a GEMM library does the rest.

use std::cell::RefCell;

use half::bf16;
use rayon::prelude::*;

use super::isa::Isa;
use super::problem::Problem;
use super::simd::{self, Aligned, COLUMNS};
use super::tasks::{Task, split};
use super::{info, supports};
use crate::kernel::{CpuCall, CpuKernel, Engine, Kernel, KernelInfo, Scheme};
use crate::shape::Case;

/// Rows of a task.
const ROW_BLOCK: usize = 64;
/// Columns of a panel.
const PANEL: usize = 96;
/// Values of k in a panel: with [`PANEL`] columns of f32 it takes 192 KiB, which stays in a second-level cache.
const DEPTH: usize = 512;

/// Decodes panels of 96 columns by 512 values of k to f32, and multiplies them with the crate `gemm`.
pub struct DecodeGemm {
    info: KernelInfo,
    isa: Isa,
}

impl DecodeGemm {
    /// The kernel for one of the NVFP4 schemes; `isa`, which this machine must have, is what it decodes with.
    pub fn new(scheme: Scheme, isa: Isa) -> Self {
        let tile = format!("{ROW_BLOCK}x{PANEL}x{DEPTH}");
        DecodeGemm { info: info(scheme, "decode-gemm", tile, "gemm 0.19"), isa }
    }
}

impl Kernel for DecodeGemm {
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

impl CpuKernel for DecodeGemm {
    fn run(&self, call: &CpuCall<'_>, out: &mut [bf16]) {
        // Operands of another scheme or length leave no answer that could pass for one.
        let Some(problem) = Problem::new(self.info.scheme, call, out.len()) else { return out.fill(bf16::NAN) };
        let tasks = split(problem.offsets, problem.n, out, ROW_BLOCK, PANEL, rayon::current_num_threads());
        tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| SCRATCH.with_borrow_mut(|s| self.task(&problem, task, s)));
    }
}

/// Buffers of one thread, kept from call to call.
struct Scratch {
    /// Activations of the task, `[rows][row_stride(k)]`.
    activations: Vec<f32>,
    /// Decoded weights, `[DEPTH][PANEL]`.
    panel: Box<Aligned<[f32; DEPTH * PANEL]>>,
    /// Sums, `[rows][PANEL]`.
    sums: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        activations: Vec::new(),
        panel: Box::new(Aligned([0.0; DEPTH * PANEL])),
        sums: Vec::new(),
    });
}

impl DecodeGemm {
    fn task(&self, problem: &Problem<'_>, mut task: Task<'_>, scratch: &mut Scratch) {
        let (k, rows) = (problem.k, task.rows.len());
        scratch.activations.resize(rows * simd::row_stride(k), 0.0);
        scratch.sums.resize(rows * PANEL, 0.0);
        simd::activations_f32(self.isa, problem.activations, k, task.rows.clone(), &mut scratch.activations);
        let global = problem.global(task.expert);
        for first in task.columns.clone().step_by(PANEL) {
            let columns = PANEL.min(task.columns.end - first);
            for depth in (0..k).step_by(DEPTH) {
                let length = DEPTH.min(k - depth);
                for column in (0..columns).step_by(COLUMNS) {
                    let panel = problem.panel(task.expert, first + column, COLUMNS.min(columns - column));
                    simd::decode_f32(self.isa, panel, depth..depth + length, &mut scratch.panel.0[column..], PANEL);
                }
                simd::gemm_f32(simd::GemmF32 {
                    columns: columns.next_multiple_of(16),
                    rows,
                    depth: length,
                    weights: &scratch.panel.0,
                    weights_stride: PANEL,
                    activations: &scratch.activations[depth..],
                    activations_stride: simd::row_stride(k),
                    sums: &mut scratch.sums,
                    sums_stride: PANEL,
                    add: depth > 0,
                });
            }
            let at = first - task.columns.start;
            for (out, sums) in task.out.iter_mut().zip(scratch.sums.chunks(PANEL)) {
                simd::round(self.isa, &sums[..columns], global, &mut out[at..at + columns]);
            }
        }
    }
}
