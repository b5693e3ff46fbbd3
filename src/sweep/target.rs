//! Which device is measured.

use crate::device::cuda;
use crate::kernel::cuda_kernels;

/// A device that kernels can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The processor.
    Cpu,
    /// A GPU, by its number.
    Cuda(usize),
}

impl Target {
    /// The device of this name, `cpu` or `cuda:N`. With none: the first GPU that this build has kernels for, else the processor.
    ///
    /// # Errors
    /// No such name; in one sentence without the name of the flag.
    pub fn named(name: Option<&str>) -> Result<Target, String> {
        let wrong = |text: &str| format!("{text}: give cpu or cuda:N, such as cuda:0");
        match name {
            None => Ok(cuda::gpus().map_or(Target::Cpu, |gpus| {
                let runs = |gpu: &&cuda::GpuInfo| !cuda_kernels(gpu).is_empty();
                gpus.iter().find(runs).map_or(Target::Cpu, |gpu| Target::Cuda(gpu.ordinal))
            })),
            Some("cpu") => Ok(Target::Cpu),
            Some("cuda") => Ok(Target::Cuda(0)),
            Some(text) => {
                let number = text.strip_prefix("cuda:").ok_or_else(|| wrong(text))?;
                number.parse().map(Target::Cuda).map_err(|_| wrong(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_cpu_or_cuda_with_a_number() {
        assert_eq!(Target::named(Some("cpu")), Ok(Target::Cpu));
        assert_eq!(Target::named(Some("cuda")), Ok(Target::Cuda(0)));
        assert_eq!(Target::named(Some("cuda:3")), Ok(Target::Cuda(3)));
        for wrong in ["gpu", "cuda:", "cuda:-1", "cuda:x", ""] {
            assert!(Target::named(Some(wrong)).is_err_and(|e| e.starts_with(wrong)), "{wrong}");
        }
    }
}
