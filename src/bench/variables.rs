//! The variables `MOEBIUS_BENCH_*`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::device::SEED;
use crate::kernel::Selection;
use crate::shape::{Case, CaseSpec, Error, MAX_BATCH, MAX_EXPERTS, Model, Parallelism, Routing, Stage, parse_list};

/// What the names of all variables begin with.
pub(super) const PREFIX: &str = "MOEBIUS_BENCH_";

/// The rest of their names.
const NAMES: [&str; 12] =
    ["MODEL", "SHAPE", "TP", "EP", "BATCH", "STAGE", "EXPERTS", "TOP_K", "ROUTING", "KERNEL", "DEVICE", "ALL"];

/// The model that is measured when none is named, and how it is split.
const DEFAULT_MODEL: &str = "glm-5";
const DEFAULT_TP: u32 = 8;

/// Largest parallelism that can be asked for: no layer has more experts to divide.
const MAX_PARALLEL: u32 = MAX_EXPERTS;

/// What the variables ask for.
#[derive(Debug)]
pub(super) struct Asked {
    /// Which kernels.
    pub kernels: Selection,
    /// On which device.
    pub device: Option<String>,
    /// However many functions these are.
    pub all: bool,
    models: Vec<Model>,
    tps: Vec<u32>,
    eps: Vec<u32>,
    batches: Option<Vec<u32>>,
    stages: Vec<Stage>,
    experts: Vec<u32>,
    top_ks: Vec<u32>,
    routing: Routing,
}

impl Asked {
    /// Reads the variables whose names begin with [`PREFIX`].
    ///
    /// # Errors
    /// One sentence that names the variable that is not known or whose value cannot be used.
    pub fn read(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, String> {
        let values = values(variables)?;
        let value = |name: &str| values.get(name).map(String::as_str);
        let list = |name: &str, most: u32| match value(name) {
            None => Ok(Vec::new()),
            Some(text) => parse_list(&format!("{PREFIX}{name}"), text, most).map_err(|error| error.to_string()),
        };
        let words = |name: &str| value(name).map(|text| text.split(',').map(|word| word.trim().to_owned()).collect());
        let models = models(value("MODEL"), value("SHAPE"))?;
        let named = value("MODEL").is_some() || value("SHAPE").is_some();
        let tps = or(list("TP", MAX_PARALLEL)?, if named { 1 } else { DEFAULT_TP });
        let routing = value("ROUTING").map(str::parse).transpose().map_err(|error| said("ROUTING", &error))?;
        let batches = list("BATCH", MAX_BATCH)?;
        Ok(Asked {
            kernels: Selection { kernels: words("KERNEL").unwrap_or_default(), ..Selection::default() },
            device: value("DEVICE").map(str::to_owned),
            all: switch("ALL", value("ALL"))?,
            models,
            tps,
            eps: or(list("EP", MAX_PARALLEL)?, 1),
            batches: Some(batches).filter(|batches| !batches.is_empty()),
            stages: stages(value("STAGE"))?,
            experts: list("EXPERTS", MAX_EXPERTS)?,
            top_ks: list("TOP_K", MAX_EXPERTS)?,
            routing: routing.unwrap_or(Routing::Uniform),
        })
    }

    /// The cases, ordered by model, tp, ep, experts, experts per token, stage and batch.
    ///
    /// # Errors
    /// One sentence that names the variable whose value makes no case.
    pub fn cases(&self, default_batches: &[u32]) -> Result<Vec<Case>, String> {
        let explicit_rows = matches!(self.routing, Routing::Rows(_));
        let default = Some(default_batches.to_vec()).filter(|_| !explicit_rows);
        let mut cases = Vec::new();
        for model in &self.models {
            for &tp in &self.tps {
                for &ep in &self.eps {
                    let spec = CaseSpec {
                        experts: self.experts.clone(),
                        top_k: self.top_ks.clone(),
                        parallelism: Parallelism { tp, ep, ..Parallelism::default() },
                        batches: self.batches.clone().or_else(|| default.clone()),
                        stages: self.stages.clone(),
                        routing: self.routing.clone(),
                        seed: SEED,
                        model: model.clone(),
                    };
                    cases.extend(spec.build().map_err(|error| said(blamed(&error), &error))?);
                }
            }
        }
        Ok(cases)
    }
}

/// The values of known variables by what follows the prefix. An empty value is as none, as is usual in shells.
fn values(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<BTreeMap<&'static str, String>, String> {
    let mut values = BTreeMap::new();
    for (name, value) in variables {
        let Some(given) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let Some(known) = NAMES.into_iter().find(|known| *known == given) else {
            return Err(format!("{PREFIX}{given} is not known; after {PREFIX} comes one of {}", NAMES.join(", ")));
        };
        let value = value.into_string().map_err(|_| format!("{PREFIX}{known} is not UTF-8 text; give plain text"))?;
        if !value.trim().is_empty() {
            values.insert(known, value.trim().to_owned());
        }
    }
    Ok(values)
}

fn or(list: Vec<u32>, default: u32) -> Vec<u32> {
    if list.is_empty() { vec![default] } else { list }
}

fn models(names: Option<&str>, shape: Option<&str>) -> Result<Vec<Model>, String> {
    match (names, shape) {
        (Some(_), Some(_)) => Err(format!("{PREFIX}MODEL and {PREFIX}SHAPE exclude each other; give one of them")),
        (None, Some(shape)) => Ok(vec![Model::free_shape(shape).map_err(|error| said("SHAPE", &error))?]),
        (names, None) => {
            let mut models: Vec<Model> = Vec::new();
            for name in names.unwrap_or(DEFAULT_MODEL).split(',') {
                let model = Model::preset(name).map_err(|error| said("MODEL", &error))?;
                // One model has several names.
                if !models.iter().any(|other| other.name == model.name) {
                    models.push(model.clone());
                }
            }
            Ok(models)
        }
    }
}

fn stages(text: Option<&str>) -> Result<Vec<Stage>, String> {
    let mut stages = Vec::new();
    for word in text.unwrap_or("gemm1,gemm2").split(',') {
        let stage = word.trim().parse::<Stage>().map_err(|error| said("STAGE", &error))?;
        if !stages.contains(&stage) {
            stages.push(stage);
        }
    }
    Ok(stages)
}

fn switch(name: &str, text: Option<&str>) -> Result<bool, String> {
    match text {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(format!("{PREFIX}{name} {other:?} is neither 0 nor 1; give one of them")),
    }
}

/// The variable that a case that cannot be built comes from, where the error itself names none.
fn blamed(error: &Error) -> &'static str {
    match error {
        Error::Split { axis: "tp", .. } => "TP",
        Error::Split { .. } => "EP",
        Error::UnknownModel { .. } => "MODEL",
        // The only files are traces, and what else can be wrong with values is their routing.
        Error::File { .. } | Error::Field { .. } | Error::Value { .. } => "ROUTING",
    }
}

/// The error as it concerns variables: where it names flags of the command line, the variables of the same meaning; where it
/// names none, `variable` before it.
fn said(variable: &str, error: &Error) -> String {
    let flag = |name: &str| format!("--{}", name.to_lowercase().replace('_', "-"));
    let sentence =
        NAMES.iter().fold(error.to_string(), |text, name| text.replace(&flag(name), &format!("{PREFIX}{name}")));
    if sentence.contains(PREFIX) { sentence } else { format!("{PREFIX}{variable}: {sentence}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Asked, String> {
        Asked::read(variables.iter().map(|(name, value)| (format!("{PREFIX}{name}").into(), (*value).into())))
    }

    fn cases(variables: &[(&str, &str)]) -> Result<Vec<Case>, String> {
        read(variables)?.cases(&[2, 4])
    }

    #[test]
    fn others_and_empty_variables_are_passed_over() {
        let asked = Asked::read([("PATH".into(), "/bin".into()), ("MOEBIUS_BENCH_TP".into(), " ".into())]).unwrap();
        assert_eq!((asked.tps, asked.eps, asked.all, asked.device), (vec![8], vec![1], false, None));
        assert_eq!(asked.models.len(), 1);
        assert_eq!(asked.kernels, Selection::default());
    }

    #[test]
    fn a_named_model_or_shape_is_not_split_unless_asked() {
        assert_eq!(read(&[("MODEL", "glm-5")]).unwrap().tps, [1]);
        assert_eq!(read(&[("SHAPE", "64,64,4,2")]).unwrap().tps, [1]);
        assert_eq!(read(&[("SHAPE", "64,64,4,2"), ("TP", "2,4")]).unwrap().tps, [2, 4]);
    }

    #[test]
    fn lists_are_read() {
        let asked = read(&[("STAGE", "gemm2, gemm1,gemm2"), ("KERNEL", "stream, *w4a16*"), ("ALL", "1")]).unwrap();
        assert_eq!(asked.stages, [Stage::Gemm2, Stage::Gemm1]);
        assert_eq!(asked.kernels.kernels, ["stream", "*w4a16*"]);
        assert!(asked.all);
        assert_eq!(read(&[("BATCH", "1,4..16")]).unwrap().batches, Some(vec![1, 4, 8, 16]));
    }

    #[test]
    fn explicit_rows_bring_their_own_batch() {
        let shape = ("SHAPE", "64,64,4,2");
        let batches = |cases: Vec<Case>| cases.iter().map(|case| case.batch).collect::<Vec<_>>();
        assert_eq!(batches(cases(&[shape]).unwrap()), [2, 4, 2, 4]);
        assert_eq!(batches(cases(&[shape, ("ROUTING", "rows:12,0,5,1")]).unwrap()), [12, 12]);
    }

    #[test]
    fn a_bad_value_is_one_sentence_that_names_the_variable() {
        let shape = ("SHAPE", "64,64,4,2");
        for (variables, name) in [
            (&[("MODEL", "glm-55")][..], "MODEL"),
            (&[("MODEL", "glm-5,")], "MODEL"),
            (&[("MODEL", "glm-5"), shape], "SHAPE"),
            (&[("SHAPE", "64,64")], "SHAPE"),
            (&[("TP", "3")], "TP"),
            (&[("TP", "0")], "TP"),
            (&[("EP", "3")], "EP"),
            (&[("EP", "two")], "EP"),
            (&[("BATCH", "8..1")], "BATCH"),
            (&[("BATCH", "1048577")], "BATCH"),
            (&[shape, ("ROUTING", "rows:12,0,5,1"), ("BATCH", "3")], "ROUTING"),
            (&[("STAGE", "gemm3")], "STAGE"),
            (&[("EXPERTS", "4")], "EXPERTS"),
            (&[("EXPERTS", "9999")], "EXPERTS"),
            (&[("TOP_K", "257")], "TOP_K"),
            (&[("ROUTING", "zipf")], "ROUTING"),
            (&[("ROUTING", "trace:no/such/file")], "ROUTING"),
            (&[("ROUTING", "rows:1,2")], "ROUTING"),
            (&[("ALL", "yes")], "ALL"),
            (&[("MODLE", "glm-5")], "MODLE"),
        ] {
            let error = cases(variables).unwrap_err();
            assert!(error.contains(&format!("{PREFIX}{name}")), "{variables:?}: {error}");
            assert!(!error.contains("--") && !error.contains('\n'), "{variables:?}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStringExt;
        let error = Asked::read([("MOEBIUS_BENCH_MODEL".into(), OsString::from_vec(vec![0xff]))]).unwrap_err();
        assert!(error.starts_with("MOEBIUS_BENCH_MODEL is not UTF-8"), "{error}");
    }
}
