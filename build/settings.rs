//! What the environment says about the build.

use std::ffi::OsString;
use std::path::PathBuf;

/// Variables that change what is built; Cargo runs the build script again when one of them changes.
pub const VARIABLES: [&str; 16] = [
    "MOEBIUS_RETARGET",
    "MOEBIUS_ARCHS",
    "MOEBIUS_KERNELS",
    "MOEBIUS_CACHE_DIR",
    "MOEBIUS_JOBS",
    "MOEBIUS_OFFLINE",
    "MOEBIUS_PYTHON",
    "NVCC",
    "NVCC_CCBIN",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUTLASS_DIR",
    "XDG_CACHE_HOME",
    "HOME",
    "PATH",
    "CARGO_NET_OFFLINE",
];

/// Which configurations of kernels.toml are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSet {
    /// Those with `set = "default"`.
    Default,
    /// All.
    Full,
}

/// The environment, read once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `MOEBIUS_ARCHS`, such as `90a,120a` or `none`; absent: the GPUs of this machine.
    pub archs: Option<String>,
    /// `MOEBIUS_KERNELS`.
    pub kernels: KernelSet,
    /// `NVCC`: the compiler itself.
    pub nvcc: Option<PathBuf>,
    /// `CUDA_HOME` and `CUDA_PATH`, in this order.
    pub cuda_homes: Vec<PathBuf>,
    /// Folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// Where a system toolkit usually is.
    pub system_cuda: PathBuf,
    /// `CUTLASS_DIR`: a checkout.
    pub cutlass_dir: Option<PathBuf>,
    /// Where fetched parts and compiled kernels are kept between builds.
    pub cache_dir: PathBuf,
    /// `MOEBIUS_JOBS`: compilers at a time.
    pub jobs: Option<usize>,
    /// `MOEBIUS_RETARGET=90a`: sm_120 kernels get an image for Hopper beside their own.
    pub retarget: bool,
    /// Nothing may be fetched.
    pub offline: bool,
    /// The Python that has pip.
    pub python: PathBuf,
}

impl Settings {
    /// Reads the variables through `get`; `out_dir` holds the cache when the machine has no home for one.
    ///
    /// # Errors
    /// A sentence that names the variable whose value means nothing.
    pub fn read(get: impl Fn(&str) -> Option<OsString>, out_dir: &std::path::Path) -> Result<Self, String> {
        let text = |name: &str| get(name).filter(|v| !v.is_empty()).map(|v| v.to_string_lossy().into_owned());
        let path = |name: &str| get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let kernels = match text("MOEBIUS_KERNELS").as_deref() {
            None | Some("default") => KernelSet::Default,
            Some("full") => KernelSet::Full,
            Some(other) => return Err(format!("MOEBIUS_KERNELS is `{other}`: set it to `default` or `full`")),
        };
        let jobs = match text("MOEBIUS_JOBS") {
            None => None,
            Some(value) => match value.parse() {
                Ok(jobs) if jobs > 0 => Some(jobs),
                _ => return Err(format!("MOEBIUS_JOBS is `{value}`: set it to a number of compilers from 1")),
            },
        };
        let retarget = match text("MOEBIUS_RETARGET").as_deref() {
            None => false,
            Some(super::retarget::TARGET) => true,
            Some(other) => return Err(format!("MOEBIUS_RETARGET is `{other}`: set it to 90a, or to nothing")),
        };
        let cache_dir = path("MOEBIUS_CACHE_DIR")
            .or_else(|| path("XDG_CACHE_HOME").map(|d| d.join("moebius")))
            .or_else(|| path("HOME").map(|d| d.join(".cache/moebius")))
            .unwrap_or_else(|| out_dir.join("cache"));
        let truthy = |name: &str| text(name).is_some_and(|v| v != "0" && v != "false");
        Ok(Settings {
            archs: text("MOEBIUS_ARCHS"),
            kernels,
            nvcc: path("NVCC"),
            cuda_homes: ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(path).collect(),
            path: get("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default(),
            system_cuda: PathBuf::from("/usr/local/cuda"),
            cutlass_dir: path("CUTLASS_DIR"),
            cache_dir,
            jobs,
            retarget,
            offline: truthy("MOEBIUS_OFFLINE") || truthy("CARGO_NET_OFFLINE"),
            python: path("MOEBIUS_PYTHON").unwrap_or_else(|| PathBuf::from("python3")),
        })
    }
}
