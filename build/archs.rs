//! GPU architectures: what the user names, what nvcc compiles for, which kernels of kernels.toml they run.

use std::fmt;

/// A version of two numbers, such as that of nvcc or of the CUDA that a driver supports.
pub type Version = (u32, u32);

/// A GPU architecture that moebius builds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arch(u32);

const KNOWN: [u32; 9] = [80, 86, 87, 89, 90, 100, 103, 120, 121];

impl Arch {
    /// The architecture of a compute capability, when moebius has kernels for it.
    pub fn of_capability(major: u32, minor: u32) -> Option<Self> {
        KNOWN.contains(&(10 * major + minor)).then_some(Arch(10 * major + minor))
    }

    /// The `chip` of kernels.toml whose kernels are tuned for it.
    pub fn chip(self) -> u32 {
        match self.0 {
            103 => 100,
            121 => 120,
            80..=89 => 80,
            other => other,
        }
    }

    /// The least nvcc that compiles for it.
    pub fn least_nvcc(self) -> Version {
        match self.0 {
            100 | 120 => (12, 8),
            103 | 121 => (12, 9),
            _ => (12, 3),
        }
    }

    /// The target that `nvcc` of this version compiles for. From 12.9 on, one family image serves a chip and its siblings.
    pub fn target(self, nvcc: Version) -> Target {
        Target(match self.chip() {
            80 => format!("{}", self.0),
            90 => "90a".to_owned(),
            chip if nvcc >= (12, 9) => format!("{chip}f"),
            chip => format!("{chip}a"),
        })
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chip() {
            80 => write!(f, "{}", self.0),
            _ => write!(f, "{}a", self.0),
        }
    }
}

/// What one image is compiled for, such as `90a` or `120f`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target(String);

impl Target {
    /// The suffix of `sm_` and `compute_`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The `-gencode` of nvcc: machine code for exactly this target.
    pub fn gencode(&self) -> String {
        format!("arch=compute_{0},code=sm_{0}", self.0)
    }
}

/// Reads `MOEBIUS_ARCHS`: names separated by commas, or `none`.
///
/// # Errors
/// A sentence that names the unknown architecture and lists the known ones.
pub fn parse(list: &str) -> Result<Vec<Arch>, String> {
    if list.trim() == "none" {
        return Ok(Vec::new());
    }
    let mut archs = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        let bare = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_")).unwrap_or(name);
        let digits = bare.strip_suffix(['a', 'f']).unwrap_or(bare);
        match digits.parse().ok().filter(|n| KNOWN.contains(n)) {
            Some(number) => archs.push(Arch(number)),
            None => {
                let known = KNOWN.map(|n| Arch(n).to_string()).join(", ");
                return Err(format!("MOEBIUS_ARCHS names `{name}`: set it to `none` or some of {known}"));
            }
        }
    }
    if archs.is_empty() {
        return Err("MOEBIUS_ARCHS names no architecture: set it to `none` or to a list such as 90a,120a".to_owned());
    }
    archs.sort_unstable();
    archs.dedup();
    Ok(archs)
}
