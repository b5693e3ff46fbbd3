//! Every kernel there is, and the choice among them.

use wildmatch::WildMatch;

use super::{Kernel, KernelInfo, Scheme, cpu};

/// The kernels that run on the processor.
pub fn cpu_kernels() -> Vec<Box<dyn Kernel>> {
    cpu::kernels()
}

/// Which kernels are wanted. An empty list wants all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Globs (`*` any characters, `?` one) of the whole id; one without a slash may also match a single part of it, so that
    /// `stream` and `cutlass` are enough.
    pub kernels: Vec<String>,
    /// Globs of the tile, such as `128x*`.
    pub tiles: Vec<String>,
    /// Number formats.
    pub schemes: Vec<Scheme>,
}

impl Selection {
    /// Whether a kernel is wanted.
    pub fn wants(&self, info: &KernelInfo) -> bool {
        (self.kernels.is_empty() || self.kernels.iter().any(|glob| matches_id(glob, info)))
            && (self.tiles.is_empty() || self.tiles.iter().any(|glob| matches_tile(glob, info)))
            && (self.schemes.is_empty() || self.schemes.contains(&info.scheme))
    }

    /// Whether each glob and scheme matches some kernel, and all of them together one.
    ///
    /// # Errors
    /// One sentence that names the one that does not; it offers what comes nearest.
    pub fn check(&self, infos: &[&KernelInfo]) -> Result<(), String> {
        if let Some(glob) = self.kernels.iter().find(|glob| !infos.iter().any(|info| matches_id(glob, info))) {
            let ids = infos.iter().map(|info| info.id.as_str());
            return Err(format!("no kernel matches `{glob}`{}", offer(glob, ids)));
        }
        if let Some(glob) = self.tiles.iter().find(|glob| !infos.iter().any(|info| matches_tile(glob, info))) {
            let tiles = infos.iter().map(|info| info.tile.as_str());
            return Err(format!("no kernel has a tile that matches `{glob}`{}", offer(glob, tiles)));
        }
        if let Some(scheme) = self.schemes.iter().find(|scheme| !infos.iter().any(|info| info.scheme == **scheme)) {
            let schemes = infos.iter().map(|info| info.scheme.as_str());
            return Err(format!("no kernel computes `{scheme}` here{}", offer(scheme.as_str(), schemes)));
        }
        if !infos.iter().any(|info| self.wants(info)) {
            return Err("each of the chosen kernels, tiles and schemes exists, but no kernel has them together; \
                        leave one of them out"
                .to_owned());
        }
        Ok(())
    }

    /// The kernels that are wanted, in the order they came in.
    ///
    /// # Errors
    /// As [`Selection::check`].
    pub fn select(&self, kernels: Vec<Box<dyn Kernel>>) -> Result<Vec<Box<dyn Kernel>>, String> {
        self.check(&kernels.iter().map(|kernel| kernel.info()).collect::<Vec<_>>())?;
        Ok(kernels.into_iter().filter(|kernel| self.wants(kernel.info())).collect())
    }
}

/// Whether a glob matches an id, or a part of it.
fn matches_id(glob: &str, info: &KernelInfo) -> bool {
    let pattern = WildMatch::new(glob);
    pattern.matches(info.id.as_str())
        || (!glob.contains('/') && info.id.as_str().split('/').any(|p| pattern.matches(p)))
}

/// Whether a glob matches the tile.
fn matches_tile(glob: &str, info: &KernelInfo) -> bool {
    WildMatch::new(glob).matches(&info.tile)
}

/// Names offered at most.
const OFFERS: usize = 3;

/// The end of a sentence that offers the names nearest to `wanted`.
fn offer<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let bare = wanted.replace(['*', '?'], "");
    let distance = |name: &str| {
        let part = name.split('/').map(|part| strsim::damerau_levenshtein(&bare, part)).min().unwrap_or(usize::MAX);
        part.min(strsim::damerau_levenshtein(&bare, name))
    };
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.sort_by_key(|name| distance(name));
    match names.as_slice() {
        [] => "; there are none here".to_owned(),
        [only] => format!("; there is only `{only}`"),
        names => {
            let nearest: Vec<_> = names.iter().take(OFFERS).map(|name| format!("`{name}`")).collect();
            format!("; nearest: {}", nearest.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(selection: &Selection) -> Result<Vec<String>, String> {
        let kernels = selection.select(cpu_kernels())?;
        Ok(kernels.iter().map(|kernel| kernel.info().id.to_string()).collect())
    }

    fn globs(list: &[&str]) -> Vec<String> {
        list.iter().map(|&glob| glob.to_owned()).collect()
    }

    #[test]
    fn nothing_asked_is_everything() {
        assert_eq!(chosen(&Selection::default()).unwrap().len(), cpu_kernels().len());
    }

    #[test]
    fn ids_are_unique() {
        let mut ids = chosen(&Selection::default()).unwrap();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), cpu_kernels().len());
    }

    #[test]
    fn a_glob_matches_the_id_or_a_part() {
        for glob in ["cpu/cpu/nvfp4-w4a4/stream", "*w4a4/stream", "cpu/*/nvfp4-w4a4/str?am"] {
            let selection = Selection { kernels: globs(&[glob]), ..Selection::default() };
            assert_eq!(chosen(&selection).unwrap(), ["cpu/cpu/nvfp4-w4a4/stream"], "{glob}");
        }
        let selection = Selection { kernels: globs(&["stream"]), ..Selection::default() };
        assert_eq!(chosen(&selection).unwrap(), ["cpu/cpu/nvfp4-w4a4/stream", "cpu/cpu/nvfp4-w4a16/stream"]);
    }

    #[test]
    fn kernel_tile_and_scheme_narrow_together() {
        let tile = cpu_kernels()[0].info().tile.clone();
        let selection =
            Selection { kernels: globs(&["stream", "decode-*"]), tiles: vec![tile], schemes: vec![Scheme::Nvfp4W4a16] };
        assert_eq!(chosen(&selection).unwrap(), ["cpu/cpu/nvfp4-w4a16/decode-gemm"]);
    }

    #[test]
    fn what_matches_nothing_is_named_with_what_is_near() {
        let error = chosen(&Selection { kernels: globs(&["*", "streem"]), ..Selection::default() }).unwrap_err();
        assert!(error.starts_with("no kernel matches `streem`; nearest: `cpu/cpu/nvfp4-w4a16/stream`"), "{error}");
        let error = chosen(&Selection { tiles: globs(&["9x9"]), ..Selection::default() }).unwrap_err();
        assert!(error.starts_with("no kernel has a tile that matches `9x9`; nearest: `"), "{error}");
        let error = chosen(&Selection { schemes: vec![Scheme::Mxfp4W4a8], ..Selection::default() }).unwrap_err();
        assert!(error.starts_with("no kernel computes `mxfp4-w4a8` here; nearest: `nvfp4-w4a4`"), "{error}");
    }

    #[test]
    fn choices_that_exclude_each_other_are_said_to() {
        let selection =
            Selection { kernels: globs(&["*w4a4*"]), schemes: vec![Scheme::Nvfp4W4a16], ..Selection::default() };
        assert!(chosen(&selection).unwrap_err().contains("no kernel has them together"));
    }
}
