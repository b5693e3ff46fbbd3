//! How a grouped GEMM is split over threads.

use std::ops::Range;

use half::bf16;

/// A block of one expert's output: some of its rows, some of its columns.
pub struct Task<'a> {
    /// The expert.
    pub expert: usize,
    /// Rows, counted over all experts.
    pub rows: Range<usize>,
    /// Columns.
    pub columns: Range<usize>,
    /// For each of these rows the part of the output that belongs to these columns.
    pub out: Vec<&'a mut [bf16]>,
}

/// Tasks for each thread that are enough to level out their differences.
const TASKS_PER_THREAD: usize = 8;

/// Splits the output `[rows][n]` into tasks of at most `row_block` rows. Where that gives too few of them for `threads`,
/// for few experts or few rows, columns are split as well, at multiples of `granule`.
///
/// Experts without rows get no task. The largest tasks come first.
pub fn split<'a>(
    offsets: &[u32],
    n: usize,
    mut out: &'a mut [bf16],
    row_block: usize,
    granule: usize,
    threads: usize,
) -> Vec<Task<'a>> {
    let blocks: Vec<(usize, Range<usize>)> = offsets
        .windows(2)
        .enumerate()
        .flat_map(|(expert, bounds)| {
            let (first, last) = (bounds[0] as usize, bounds[1] as usize);
            (first..last).step_by(row_block).map(move |row| (expert, row..last.min(row + row_block)))
        })
        .collect();
    if n == 0 || blocks.is_empty() {
        return Vec::new();
    }
    let pieces = (TASKS_PER_THREAD * threads).div_ceil(blocks.len());
    let width = n.div_ceil(pieces).next_multiple_of(granule);
    let mut tasks = Vec::with_capacity(blocks.len() * n.div_ceil(width));
    for (expert, rows) in blocks {
        let first_task = tasks.len();
        tasks.extend((0..n).step_by(width).map(|column| Task {
            expert,
            rows: rows.clone(),
            columns: column..n.min(column + width),
            out: Vec::with_capacity(rows.len()),
        }));
        let (block, rest) = out.split_at_mut(rows.len() * n);
        out = rest;
        for row in block.chunks_mut(n) {
            for (task, part) in tasks[first_task..].iter_mut().zip(row.chunks_mut(width)) {
                task.out.push(part);
            }
        }
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.rows.len() * task.columns.len()));
    tasks
}
