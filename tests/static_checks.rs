//! What can be known of the compiled kernels without a GPU. With no kernels built, only the reasons are checked.

use moebius::kernel::cuda_units::{BUILD, CompiledUnit, built, not_built};

/// Shared memory that one block can have on a chip; a kernel for every chip must fit the smallest of them.
fn shared_limit(chip: u32) -> u32 {
    match chip {
        90 | 100 => 232_448,
        _ => 101_376,
    }
}

fn count(unit: &CompiledUnit, instruction: &str) -> Vec<u32> {
    let in_image =
        |counts: &[(&str, u32)]| counts.iter().filter(|(name, _)| *name == instruction).map(|(_, n)| n).sum();
    unit.images.iter().filter_map(|image| image.matrix_instructions).map(in_image).collect()
}

#[test]
fn each_kernel_holds_the_matrix_instruction_of_its_chip_and_scheme() {
    for unit in built() {
        let expected = match (unit.plan.chip, unit.plan.scheme) {
            (120, "nvfp4-w4a4") => "OMMA",
            (120, _) => "QMMA",
            (90, "bf16") => "HGMMA",
            (90, _) => "QGMMA",
            _ => continue,
        };
        // Families of our own may use other instructions on purpose; kernels.toml says so.
        if unit.plan.id.starts_with("cutlass/") || unit.plan.id.starts_with("flashinfer/") {
            assert_eq!(unit.plan.sass, Some(expected), "{}", unit.plan.id);
        }
        if let Some(expected) = unit.plan.sass {
            assert!(count(unit, expected).iter().all(|&n| n > 0), "{}: an image without {expected}", unit.plan.id);
        }
    }
}

#[test]
fn shared_memory_fits_the_chip() {
    for unit in built() {
        let limit = shared_limit(unit.plan.chip);
        let footprint = unit.footprint();
        for image in unit.images {
            let bytes = footprint.dynamic_shared + image.static_shared;
            assert!(bytes <= limit, "{}: {bytes} bytes of shared memory, the chip has {limit}", unit.plan.id);
        }
        assert!((32..=1024).contains(&footprint.threads), "{}: {} threads", unit.plan.id, footprint.threads);
    }
}

#[test]
fn machine_code_is_embedded_whole_and_optimised() {
    for unit in built() {
        assert!(!unit.images.is_empty(), "{}: no image", unit.plan.id);
        for image in unit.images {
            assert!(!image.debug_code, "{}: debug code for sm_{}", unit.plan.id, image.target);
            assert_eq!(image.sha256.len(), 64, "{}", unit.plan.id);
            assert!(image.bytes > 1000, "{}: an image of {} bytes", unit.plan.id, image.bytes);
            // A CUTLASS kernel for the wrong suffix collapses to an abort of some 24 registers.
            if unit.plan.id.starts_with("cutlass/") {
                assert!(image.registers >= 64, "{}: {} registers", unit.plan.id, image.registers);
            }
        }
    }
}

/// With `MOEBIUS_RETARGET` every kernel that has no image for Hopper got one, and the kernels of kernels.toml hold nothing that
/// cannot be emulated.
#[test]
fn kernels_of_sm_120_are_retargeted_where_asked() {
    let foreign = |unit: &&moebius::kernel::cuda_units::CompiledUnit| unit.plan.chip == 120;
    // What the build was asked for, not what it did: a build that passes all of them over must not pass.
    let asked = option_env!("MOEBIUS_RETARGET").is_some_and(|word| !word.is_empty());
    for unit in built().iter().filter(foreign).filter(|_| asked) {
        let image = unit.retargeted.unwrap_or_else(|| panic!("{} was passed over", unit.plan.id));
        let image = image.unwrap_or_else(|reason| panic!("{}: {reason}", unit.plan.id));
        assert!(image.runs_on(9, 0) && image.bytes > 0, "{}", unit.plan.id);
        assert!(unit.image_for(9, 0).is_none(), "{}: its rewritten image counts as its own", unit.plan.id);
    }
}

#[test]
fn the_c_side_agrees_with_the_table() {
    for unit in built() {
        let c = unit.unit();
        // SAFETY: the strings of a unit are constants of its object, ended by a NUL.
        let text = |pointer| unsafe { std::ffi::CStr::from_ptr(pointer) }.to_str().expect("plain text").to_owned();
        assert_eq!(text(c.id), unit.plan.id);
        assert!(!text(c.weights_layout).is_empty() && !text(c.activations_layout).is_empty());
        assert!(!text(c.version).is_empty());
        assert!(c.supports.is_some() && c.sizes.is_some() && c.plan.is_some() && c.run.is_some());
        assert!(
            c.pack_weights.is_some() && c.pack_activations.is_some() && c.destroy.is_some() && c.resources.is_some()
        );
    }
}

#[test]
fn the_program_knows_how_it_was_built() {
    assert_eq!(built().is_empty(), BUILD.targets.is_empty());
    for unit in built() {
        for image in unit.images {
            assert!(BUILD.targets.split(',').any(|target| target == image.target), "{}", image.target);
        }
    }
    for unit in not_built() {
        assert!(unit.reason.contains("build"), "{}: {}", unit.plan.id, unit.reason);
    }
}

#[test]
fn shapes_are_judged_on_the_host() {
    use moebius::device::abi;
    let text = |message: &abi::moebius_message| {
        let bytes = message.text.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
        String::from_utf8(bytes).expect("plain text")
    };
    for unit in built() {
        let c = unit.unit();
        let mut message = abi::moebius_message { text: [0; 256] };
        let judge = c.supports.expect("every unit judges shapes");
        let shape = abi::moebius_shape { experts: 256, n: 4096, k: 8192, rows: 64, sm_count: 132, act_globals: 1 };
        // SAFETY: both pointers are to live values of the types of the C interface, for the time of the call.
        let code = unsafe { judge(&shape, &mut message) };
        assert_eq!(code as u32, abi::MOEBIUS_OK, "{}: {}", unit.plan.id, text(&message));
        let mut sizes = abi::moebius_sizes::default();
        // SAFETY: as above.
        let code = unsafe { c.sizes.expect("every unit knows its sizes")(&shape, &mut sizes, &mut message) };
        assert_eq!(code as u32, abi::MOEBIUS_OK, "{}: {}", unit.plan.id, text(&message));
        assert!(sizes.workspace < 1 << 30, "{}: a workspace of {} bytes", unit.plan.id, sizes.workspace);
        // No scheme can cut an odd k into 16-byte reads.
        let odd = abi::moebius_shape { k: 8191, ..shape };
        // SAFETY: as above.
        let code = unsafe { judge(&odd, &mut message) };
        assert_eq!(code as u32, abi::MOEBIUS_UNSUPPORTED, "{}", unit.plan.id);
        assert!(text(&message).contains("8191"), "{}: {}", unit.plan.id, text(&message));
    }
}
