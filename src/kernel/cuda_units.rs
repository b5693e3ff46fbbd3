//! The CUDA kernels that build.rs compiled from kernels.toml, and those it did not, with the reason.

use crate::device::abi;

/// What kernels.toml says of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPlan {
    /// The kernel id.
    pub id: &'static str,
    /// The chip that it is made for: 90, 100, 120, or 80 for every chip from compute capability 8.0 on.
    pub chip: u32,
    /// The word of its scheme.
    pub scheme: &'static str,
    /// m, n and k of the tile; of the swapped problem when `swap` is set.
    pub tile: [u32; 3],
    /// Blocks of a cluster along m and n.
    pub cluster: [u32; 2],
    /// `cooperative`, `pingpong`, or none.
    pub schedule: Option<&'static str>,
    /// Weights are the M operand.
    pub swap: bool,
    /// It is built without being asked for.
    pub in_default_set: bool,
    /// Matrix instruction that its machine code must hold.
    pub sass: Option<&'static str>,
}

/// A kernel that was compiled into this program.
pub struct CompiledUnit {
    /// What kernels.toml says of it.
    pub plan: UnitPlan,
    /// Seconds that the compiler took.
    pub compile_seconds: f64,
    /// Its machine code, one image a target.
    pub images: &'static [Image],
    /// The image for Hopper that was rewritten from it (`MOEBIUS_RETARGET`), or what cannot be emulated; absent where none was
    /// asked for. It is for verification alone, so it is not among `images`.
    pub retargeted: Option<Result<Image, &'static str>>,
    unit: fn() -> &'static abi::moebius_unit,
    footprint: fn() -> Footprint,
}

/// A kernel of kernels.toml that is not in this program.
#[derive(Debug)]
pub struct NotBuilt {
    /// What kernels.toml says of it.
    pub plan: UnitPlan,
    /// Why, and what to do about it.
    pub reason: &'static str,
}

/// What the main kernel of a unit takes of a multiprocessor, as far as it is known without a GPU (`moebius_footprint` of
/// csrc/common/unit.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Footprint {
    /// Dynamic shared memory, bytes per block.
    pub dynamic_shared: u32,
    /// Threads per block.
    pub threads: u32,
    /// Pipeline depth, 0 when it has none.
    pub stages: u32,
}

/// Machine code for one target. Numbers of ptxas are the largest over the kernels of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// What it was compiled for, such as `90a` or `120f`.
    pub target: &'static str,
    /// SHA-256 of the cubin.
    pub sha256: &'static str,
    /// Size of the cubin.
    pub bytes: u64,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spill stores per thread.
    pub spill_stores: u32,
    /// Bytes of spill loads per thread.
    pub spill_loads: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub static_shared: u32,
    /// Matrix instructions by mnemonic; none when the toolkit of the build could not disassemble.
    pub matrix_instructions: Option<&'static [(&'static str, u32)]>,
    /// Whether it has the full debug information of code that was not optimised.
    pub debug_code: bool,
}

include!(concat!(env!("OUT_DIR"), "/units.rs"));

/// Every compiled kernel, in the order of kernels.toml.
pub fn built() -> &'static [CompiledUnit] {
    &BUILT
}

/// Every kernel of kernels.toml that was not compiled.
pub fn not_built() -> &'static [NotBuilt] {
    &NOT_BUILT
}

impl CompiledUnit {
    /// The C side of the kernel.
    pub fn unit(&self) -> &'static abi::moebius_unit {
        (self.unit)()
    }

    /// What it takes of a multiprocessor.
    pub fn footprint(&self) -> Footprint {
        (self.footprint)()
    }

    /// The image that a GPU of this compute capability runs, if any.
    pub fn image_for(&self, major: u32, minor: u32) -> Option<&'static Image> {
        self.images.iter().find(|image| image.runs_on(major, minor))
    }
}

impl Image {
    /// Whether a GPU of this compute capability runs the image: `a` means this one alone, `f` its family from there on, no
    /// suffix the same major version from there on.
    pub fn runs_on(&self, major: u32, minor: u32) -> bool {
        let digits = self.target.trim_end_matches(['a', 'f']);
        let Ok(number) = digits.parse::<u32>() else { return false };
        let (own_major, own_minor) = (number / 10, number % 10);
        match self.target.ends_with('a') {
            true => (own_major, own_minor) == (major, minor),
            false => own_major == major && own_minor <= minor,
        }
    }
}

/// How this program was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildFacts {
    /// Targets of the images, such as `90a,120f`; empty without CUDA kernels.
    pub targets: &'static str,
    /// Version of nvcc; empty without CUDA kernels.
    pub nvcc: &'static str,
    /// Version of CUTLASS; empty when no kernel needs it.
    pub cutlass: &'static str,
    /// Version of FlashInfer; empty when no kernel needs it.
    pub flashinfer: &'static str,
    /// The commit, with `-dirty` when files differed from it; empty outside a repository.
    pub git_revision: &'static str,
}

/// How this program was built.
pub const BUILD: BuildFacts = BuildFacts {
    targets: env!("MOEBIUS_BUILD_TARGETS"),
    nvcc: env!("MOEBIUS_NVCC_VERSION"),
    cutlass: env!("MOEBIUS_CUTLASS_VERSION"),
    flashinfer: env!("MOEBIUS_FLASHINFER_VERSION"),
    git_revision: env!("MOEBIUS_GIT_REVISION"),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn image(target: &'static str) -> Image {
        Image {
            target,
            sha256: "",
            bytes: 0,
            registers: 0,
            spill_stores: 0,
            spill_loads: 0,
            stack: 0,
            static_shared: 0,
            matrix_instructions: None,
            debug_code: false,
        }
    }

    #[test]
    fn an_image_runs_where_its_suffix_says() {
        assert!(image("90a").runs_on(9, 0) && !image("90a").runs_on(10, 0));
        assert!(image("120f").runs_on(12, 0) && image("120f").runs_on(12, 1) && !image("120f").runs_on(10, 0));
        assert!(!image("120a").runs_on(12, 1));
        assert!(image("100f").runs_on(10, 3) && !image("100f").runs_on(11, 0));
        assert!(image("80").runs_on(8, 9) && !image("86").runs_on(8, 0) && !image("80").runs_on(9, 0));
    }

    #[test]
    fn every_kernel_of_the_manifest_is_built_or_has_a_reason() {
        assert!(!built().is_empty() || !not_built().is_empty());
        assert!(not_built().iter().all(|unit| !unit.reason.is_empty()));
    }

    #[test]
    fn the_c_side_carries_the_id_of_the_table() {
        for unit in built() {
            // SAFETY: a unit's id is a NUL-terminated string constant of its object.
            let id = unsafe { std::ffi::CStr::from_ptr(unit.unit().id) };
            assert_eq!(id.to_str(), Ok(unit.plan.id));
            assert_eq!(unit.unit().abi_version, abi::MOEBIUS_ABI_VERSION);
        }
    }
}
