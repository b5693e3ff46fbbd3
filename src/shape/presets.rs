//! The models that come with moebius: one file of `models/` each, embedded.

use std::sync::LazyLock;

use super::error::{Error, quote};
use super::model::Model;

macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../models/", $name, ".toml")))),*]
    };
}

/// Name and text of every file of `models/`, in the order of lists. A test compares it with the folder.
const FILES: &[(&str, &str)] = embed![
    "glm-5",
    "glm-4.5",
    "glm-4.5-air",
    "glm-4.7",
    "glm-4.7-flash",
    "deepseek-v3",
    "deepseek-r1",
    "deepseek-v3.2",
    "kimi-k2",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-coder-480b-a35b",
    "qwen3-next-80b-a3b",
    "qwen3.5-397b-a17b",
    "qwen3.5-122b-a10b",
    "qwen3.5-35b-a3b",
    "minimax-m2",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "llama-4-scout",
    "llama-4-maverick",
    "mixtral-8x7b",
    "mixtral-8x22b",
    "nemotron-3-nano",
    "nemotron-3-super",
    "ernie-4.5-300b-a47b",
    "hunyuan-a13b",
    "hy3-preview",
    "step-3.5-flash",
    "dbrx",
];

static PRESETS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|(name, text)| match toml::from_str(text) {
            Ok(model) => model,
            // The text is part of the program and parsed by a test, so this cannot be reached by any input.
            Err(error) => panic!("models/{name}.toml: {error}"),
        })
        .collect()
});

impl Model {
    /// Every model that comes with moebius, in the order of lists.
    pub fn presets() -> &'static [Model] {
        &PRESETS
    }

    /// The preset of this name, Hugging Face id, id of the same shape, or checkpoint, whatever the case of letters. An
    /// id is also known by its part after the slash.
    ///
    /// # Errors
    /// [`Error::UnknownModel`] with up to three similar names.
    pub fn preset(name: &str) -> Result<&'static Model, Error> {
        let wanted = name.trim().to_lowercase();
        let own = |m: &&Model| m.name == wanted || is_id(&m.id, &wanted);
        let other = |m: &&Model| m.other_ids().any(|id| is_id(id, &wanted));
        let found = Model::presets().iter().find(own).or_else(|| Model::presets().iter().find(other));
        found.ok_or_else(|| Error::UnknownModel { name: quote(name), nearest: nearest(&wanted) })
    }

    /// Ids of the models and checkpoints that share this shape.
    fn other_ids(&self) -> impl Iterator<Item = &str> {
        let checkpoints = self.quantised.iter().flat_map(|q| &q.checkpoints);
        self.same_shape.iter().chain(checkpoints).map(String::as_str)
    }
}

fn is_id(id: &str, wanted: &str) -> bool {
    let id = id.to_lowercase();
    id == wanted || id.split_once('/').is_some_and(|(_, name)| name == wanted)
}

/// Up to three preset names that resemble `wanted`, the most similar first.
fn nearest(wanted: &str) -> Vec<String> {
    const LONGEST: usize = 100;
    const LEAST_SIMILARITY: f64 = 0.7;
    let wanted: String = wanted.rsplit('/').next().unwrap_or_default().chars().take(LONGEST).collect();
    let mut scored: Vec<(f64, &str)> = Model::presets()
        .iter()
        .map(|m| (strsim::jaro_winkler(&wanted, &m.name), m.name.as_str()))
        .filter(|(score, _)| *score >= LEAST_SIMILARITY)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_folder() {
        let mut folder: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/models"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut list: Vec<String> = FILES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        folder.sort();
        list.sort();
        assert_eq!(list, folder);
    }

    #[test]
    fn every_preset_is_sound_and_found_by_each_of_its_names() {
        for ((file, _), model) in FILES.iter().zip(Model::presets()) {
            assert_eq!(model.name, *file);
            assert_eq!(model.check(), Ok(()), "{file}");
            assert!(!model.sources.is_empty(), "{file}");
            assert_eq!(Model::preset(&model.name.to_uppercase()).unwrap().name, model.name);
            assert_eq!(Model::preset(&model.id).unwrap().name, model.name);
            for id in model.other_ids() {
                let found = Model::preset(id).unwrap();
                assert_eq!(
                    (found.hidden, found.intermediate, found.experts, found.top_k),
                    (model.hidden, model.intermediate, model.experts, model.top_k),
                    "{id}"
                );
            }
        }
    }

    #[test]
    fn schemes_are_words_of_the_program() {
        for scheme in Model::presets().iter().flat_map(|m| &m.quantised).filter_map(|q| q.scheme.as_ref()) {
            assert!(scheme.parse::<crate::kernel::Scheme>().is_ok(), "{scheme}");
        }
    }

    #[test]
    fn an_unknown_name_is_met_with_similar_ones() {
        let error = Model::preset("glm5").unwrap_err();
        assert!(error.to_string().starts_with("unknown model `glm5`; did you mean glm-5 or "), "{error}");
        let error = Model::preset("\u{1b}[2J@@@@").unwrap_err().to_string();
        assert_eq!(error, "unknown model `\\u{1b}[2J@@@@`; `moebius list models` shows the known ones");
    }
}
