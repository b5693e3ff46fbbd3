//! Which instructions the kernels may use.

/// Instruction sets that the kernels have code for, the poorest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// What the compiler makes of plain loops over lanes, on any machine.
    Portable,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// x86-64 with AVX-512 F, BW and VL.
    Avx512,
    /// x86-64 with AVX-512 F, BW, VL, VBMI and VNNI.
    Avx512Vnni,
}

impl Isa {
    /// Every instruction set that this machine has, the best last.
    pub fn available() -> Vec<Isa> {
        let mut found = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(Isa::Avx2);
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                {
                    found.push(Isa::Avx512);
                    if is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512vnni") {
                        found.push(Isa::Avx512Vnni);
                    }
                }
            }
        }
        found
    }

    /// The best instruction set of this machine.
    pub fn detect() -> Isa {
        Isa::available().into_iter().max().unwrap_or(Isa::Portable)
    }

    /// Its name for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "AVX2",
            Isa::Avx512 => "AVX-512",
            Isa::Avx512Vnni => "AVX-512 VNNI",
        }
    }
}
