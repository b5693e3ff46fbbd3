//! Progress on a terminal; nothing in a pipe.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::sweep::Step;

/// A bar on standard error: cases done, what runs now, and the time left.
pub struct Progress {
    bar: ProgressBar,
    began: Instant,
    case: String,
    done: usize,
    total: usize,
}

impl Progress {
    /// A bar that is drawn only where standard error is a terminal.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} cases  {elapsed}  {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        Progress { bar, began: Instant::now(), case: String::new(), done: 0, total: 0 }
    }

    /// Shows a step of a sweep.
    pub fn step(&mut self, step: Step<'_>) {
        match step {
            Step::Case(number, total, case) => {
                self.done = number - 1;
                self.total = total;
                self.case = format!("{} batch {}", case.stage, case.batch);
                self.bar.set_length(total as u64);
                self.bar.set_position(self.done as u64);
                self.show("");
            }
            Step::Doing(what) => self.show(what),
            Step::Sampling(p) => self.show(&format!("round {}, {} kernels", p.rounds, p.live)),
        }
    }

    fn show(&self, what: &str) {
        let left = match (self.done, self.began.elapsed().as_secs_f64() / self.done.max(1) as f64) {
            (0, _) => String::new(),
            (done, each) => format!("about {:.0} s left, ", each * (self.total - done) as f64),
        };
        self.bar.set_message(format!("{left}{}: {what}", self.case));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
