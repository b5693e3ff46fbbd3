//! What a benchmark runner is given: groups of cases, each with the kernels that compute it.

use super::{Settings, Subject, SubjectError};

/// Cases that differ in one axis only, such as the batch sizes of one stage: one group of a benchmark runner.
pub struct BenchGroup {
    /// Name of the group, such as `glm-5 tp8 gemm1 uniform`.
    pub label: String,
    /// How its cases are sampled.
    pub settings: Settings,
    /// Its cases.
    pub cases: Vec<BenchCase>,
}

/// One case and the kernels to compare on it.
pub struct BenchCase {
    /// Value of the group's axis, such as the batch size.
    pub parameter: String,
    /// What a call moves and computes.
    pub throughput: BenchThroughput,
    /// Names of the kernels.
    pub kernels: Vec<String>,
    /// Makes the subjects of the named kernels, ready to be timed: operands filled, answers verified. Called at most
    /// once for each set of names, and not at all for a case that nobody asks for.
    pub open: OpenCase,
}

/// Makes the subjects of the named kernels of a case.
pub type OpenCase = Box<dyn FnMut(&[String]) -> Result<Vec<NamedSubject>, SubjectError>>;

/// A kernel's subject, or why it has none.
pub struct NamedSubject {
    /// The kernel's name.
    pub name: String,
    /// The subject, or the reason it cannot be timed.
    pub subject: Result<Box<dyn Subject>, SubjectError>,
}

/// What one call moves and computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BenchThroughput {
    /// Bytes that must be read and written.
    pub bytes: u64,
    /// Useful floating-point operations.
    pub flops: u64,
}
