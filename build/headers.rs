//! Header sets on the include path of the kernels: CUTLASS, FlashInfer, cuRAND.

use std::path::{Path, PathBuf};

use super::archs::Version;
use super::pins::Pins;
use super::settings::Settings;

/// The header sets that the wanted kernels need.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    /// Folders for `-I`, in order.
    pub folders: Vec<PathBuf>,
    /// Version of CUTLASS, such as `4.5.0`.
    pub cutlass: Option<String>,
    /// Version of FlashInfer.
    pub flashinfer: Option<String>,
    /// Tells one content of a set from another.
    identities: Vec<(Need, String)>,
}

/// A header set that a family names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// CUTLASS and CuTe.
    Cutlass,
    /// FlashInfer's kernel sources.
    Flashinfer,
    /// The device headers of cuRAND.
    Curand,
}

/// Finds or fetches what `needs` names.
///
/// # Errors
/// One sentence: a `CUTLASS_DIR` that holds no CUTLASS, or why the pinned package could not be fetched.
pub fn find(settings: &Settings, needs: &[Need], pins: &Pins) -> Result<Headers, String> {
    let mut headers = Headers::default();
    let fetch_flashinfer = || {
        super::fetch::set(
            &pins.flashinfer,
            &format!("flashinfer-python {} (it carries CUTLASS)", pins.flashinfer.version),
            "set CUTLASS_DIR to a CUTLASS checkout, or MOEBIUS_ARCHS=none to build the CPU kernels alone",
            settings,
        )
    };
    if needs.contains(&Need::Cutlass) || needs.contains(&Need::Flashinfer) {
        let (root, from_pin) = match &settings.cutlass_dir {
            Some(dir) => (dir.clone(), false),
            None => (fetch_flashinfer()?.join("cutlass"), true),
        };
        let include = root.join("include");
        let version = cutlass_version(&include).ok_or_else(|| match from_pin {
            false => format!(
                "CUTLASS_DIR is {}, which has no include/cutlass/version.h: set it to the root of a CUTLASS checkout",
                root.display()
            ),
            true => format!(
                "{} holds no CUTLASS although it was fetched: remove that folder and build again",
                root.display()
            ),
        })?;
        let identity = match from_pin {
            true => format!("pinned CUTLASS {version} {:?}\n", pins.flashinfer),
            false => format!("CUTLASS {version} {}\n", digest(&include)?),
        };
        headers.identities.push((Need::Cutlass, identity));
        headers.cutlass = Some(version);
        headers.folders.push(include);
        headers.folders.push(root.join("tools/util/include"));
    }
    if needs.contains(&Need::Flashinfer) {
        let root = fetch_flashinfer()?;
        headers.identities.push((Need::Flashinfer, format!("pinned FlashInfer {:?}\n", pins.flashinfer)));
        headers.flashinfer = Some(pins.flashinfer.version.clone());
        headers.folders.push(root.join("include"));
        headers.folders.push(root.join("csrc"));
        headers.folders.push(root.join("csrc/nv_internal/include"));
        headers.folders.push(root.join("csrc/nv_internal/tensorrt_llm/cutlass_extensions/include"));
    }
    if needs.contains(&Need::Curand) {
        let what = format!("cuRAND headers {}", pins.curand.version);
        let root =
            super::fetch::set(&pins.curand, &what, "set MOEBIUS_ARCHS=none to build the CPU kernels alone", settings)?;
        headers.identities.push((Need::Curand, format!("pinned cuRAND {:?}\n", pins.curand)));
        headers.folders.push(root.join("include"));
    }
    headers.folders.retain(|folder| folder.is_dir());
    Ok(headers)
}

impl Headers {
    /// Tells one content of the sets that `needs` names from another.
    pub fn identity(&self, needs: &[Need]) -> String {
        self.identities.iter().filter(|(need, _)| needs.contains(need)).map(|(_, identity)| identity.as_str()).collect()
    }
}

/// `4.5.0` from the macros of version.h.
fn cutlass_version(include: &Path) -> Option<String> {
    let text = std::fs::read_to_string(include.join("cutlass/version.h")).ok()?;
    let number = |name: &str| {
        text.lines()
            .find_map(|line| line.trim().strip_prefix("#define ")?.strip_prefix(name)?.trim().parse::<u32>().ok())
    };
    Some(format!("{}.{}.{}", number("CUTLASS_MAJOR")?, number("CUTLASS_MINOR")?, number("CUTLASS_PATCH")?))
}

/// The first two numbers of a version such as `4.5.0` or `4.5`.
pub fn two_numbers(version: &str) -> Option<Version> {
    let mut numbers = version.split('.').map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// SHA-256 over the names and contents of all files below `folder`.
fn digest(folder: &Path) -> Result<String, String> {
    let unreadable = |e: std::io::Error| format!("{} cannot be read: {e}", folder.display());
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort_unstable();
    let mut all = Vec::new();
    for file in files {
        all.extend_from_slice(file.strip_prefix(folder).unwrap_or(&file).as_os_str().as_encoded_bytes());
        all.push(0);
        all.extend(std::fs::read(&file).map_err(unreadable)?);
    }
    Ok(super::sha256(&all))
}
