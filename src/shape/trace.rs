//! Recorded routing: the expert ids of the tokens that one MoE layer saw.

use std::path::Path;

use super::draw;
use super::error::{Error, brief, quote, shown};
use super::file::read_text;
use super::routing::Draw;

/// Largest trace file read.
const MAX_BYTES: u64 = 256 << 20;

/// The experts of consecutive tokens, as recorded at one layer.
///
/// Two formats. Text: one token a line, its expert ids separated by commas or spaces; empty lines and what follows a
/// `#` are skipped. JSON: an array with one array of expert ids for each token.
///
/// ```text
/// # layer 36, prompt 1
/// 17 203 5 88 140 9 61 254
/// 17 12 5 88 201 9 33 254
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    path: String,
    ids: Vec<u32>,
    top_k: u32,
    /// Line of each token, from 1; for JSON, its place in the array, from 1.
    places: Vec<u32>,
    unit: &'static str,
}

impl Trace {
    /// Reads a trace.
    ///
    /// # Errors
    /// One sentence that names the file and the line when it cannot be read, holds something other than ids, repeats an
    /// expert within a token, or when tokens have different numbers of experts.
    pub fn read(path: &Path) -> Result<Trace, Error> {
        let text = read_text(path, MAX_BYTES, "give a text file with the expert ids of one token a line")?;
        Trace::parse(&text, &shown(path))
    }

    /// Reads the text of a trace; `path` is for sentences.
    ///
    /// # Errors
    /// As [`Trace::read`].
    pub fn parse(text: &str, path: &str) -> Result<Trace, Error> {
        let json = text.trim_start().starts_with('[');
        let mut trace = Trace {
            path: path.into(),
            ids: Vec::new(),
            top_k: 0,
            places: Vec::new(),
            unit: if json { "token" } else { "line" },
        };
        if json {
            let tokens: Vec<Vec<u32>> = serde_json::from_str(text).map_err(|error| {
                trace.wrong(
                    format!("is no array of arrays of expert ids ({})", brief(&error)),
                    "mend it or record it again",
                )
            })?;
            for (place, token) in tokens.iter().enumerate() {
                trace.push(place + 1, token)?;
            }
        } else {
            let mut token = Vec::new();
            for (place, line) in text.lines().enumerate() {
                token.clear();
                let content = line.split('#').next().unwrap_or_default();
                for word in content.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty()) {
                    let id = word.parse().map_err(|_| {
                        trace.wrong(
                            format!("line {} has {} for an expert id", place + 1, quote(word)),
                            "give whole numbers from 0, separated by commas or spaces",
                        )
                    })?;
                    token.push(id);
                }
                if !token.is_empty() {
                    trace.push(place + 1, &token)?;
                }
            }
        }
        if trace.places.is_empty() {
            return Err(trace.wrong("holds no token".into(), "record one token a line"));
        }
        Ok(trace)
    }

    fn push(&mut self, place: usize, token: &[u32]) -> Result<(), Error> {
        let at = |trace: &Trace| format!("{} {place}", trace.unit);
        if self.places.is_empty() {
            self.top_k = token.len() as u32;
        }
        if token.len() as u32 != self.top_k || token.is_empty() {
            let problem =
                format!("{} has {} expert ids where the first token has {}", at(self), token.len(), self.top_k);
            return Err(self.wrong(problem, "give each token the same number of experts, at least one"));
        }
        if let Some(twice) = repeated(token) {
            let problem = format!("{} names expert {twice} twice", at(self));
            return Err(self.wrong(problem, "give each token distinct experts"));
        }
        self.ids.extend_from_slice(token);
        self.places.push(place as u32);
        Ok(())
    }

    /// Tokens recorded.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nothing was recorded; [`Trace::read`] refuses such a file.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Experts per token.
    pub fn top_k(&self) -> u32 {
        self.top_k
    }

    /// The expert ids of `tokens` consecutive tokens; the seed chooses where they begin.
    pub(super) fn window(&self, draw: Draw) -> Result<Vec<u32>, Error> {
        let Draw { experts, top_k, tokens, seed } = draw;
        if self.top_k != top_k {
            let problem = format!("has {} experts per token where the model has {top_k}", self.top_k);
            return Err(self.wrong(problem, &format!("give a trace of this model, or --top-k {}", self.top_k)));
        }
        if self.len() < tokens as usize {
            let problem = format!("holds {} tokens where batch {tokens} needs as many", self.len());
            return Err(self.wrong(problem, &format!("record more, or give --batch up to {}", self.len())));
        }
        if let Some(wrong) = self.ids.iter().position(|&id| id >= experts) {
            let place = self.places.get(wrong / top_k.max(1) as usize).copied().unwrap_or_default();
            let id = self.ids.get(wrong).copied().unwrap_or_default();
            let problem = format!("{} {place} names expert {id} where the model has 0 to {}", self.unit, experts - 1);
            return Err(self.wrong(problem, "give a trace of this model"));
        }
        let first = draw::window(self.len() as u32, tokens, seed) as usize * top_k as usize;
        Ok(self.ids.iter().skip(first).take(tokens as usize * top_k as usize).copied().collect())
    }

    fn wrong(&self, problem: String, remedy: &str) -> Error {
        Error::File { path: self.path.clone(), problem, remedy: remedy.into() }
    }
}

/// An id that occurs more than once.
fn repeated(token: &[u32]) -> Option<u32> {
    let mut sorted = token.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        Trace::parse(text, "t.txt").unwrap_err().to_string()
    }

    #[test]
    fn both_formats_give_the_same_tokens() {
        let text = Trace::parse("# head\n1, 2\n\n3\t4 # tail\n5,6\r\n", "t").unwrap();
        let json = Trace::parse(" [[1,2],[3,4],[5,6]]", "t").unwrap();
        assert_eq!(text.ids, json.ids);
        assert_eq!((text.len(), text.top_k()), (3, 2));
    }

    #[test]
    fn bad_traces_are_refused_with_their_line() {
        assert!(wrong("1 2\n3 x\n").starts_with("t.txt: line 2 has `x` for an expert id; "));
        assert!(wrong("1 2\n3 -1\n").starts_with("t.txt: line 2 has `-1` for an expert id; "));
        assert!(wrong("1 2\n\n3\n").starts_with("t.txt: line 3 has 1 expert ids where the first token has 2; "));
        assert!(wrong("1 2\n3 3\n").starts_with("t.txt: line 2 names expert 3 twice; "));
        assert!(wrong("[[1,2],[4,4]]").starts_with("t.txt: token 2 names expert 4 twice; "));
        assert!(wrong("[[]]").starts_with("t.txt: token 1 has 0 expert ids "));
        assert!(wrong("[[1,2],[3,4]").contains("line 1 column"));
        assert!(wrong("[[1,\"2\"]]").contains("line 1 column"));
        assert!(wrong("# nothing\n").starts_with("t.txt: holds no token; "));
        assert!(wrong("[]").starts_with("t.txt: holds no token; "));
    }

    #[test]
    fn a_window_fits_the_model_and_the_trace() {
        let trace = Trace::parse("0 1\n2 3\n4 5\n", "t.txt").unwrap();
        let window = |experts, top_k, tokens, seed| trace.window(Draw { experts, top_k, tokens, seed });
        assert_eq!(window(6, 2, 3, 9).unwrap(), [0, 1, 2, 3, 4, 5]);
        let starts: std::collections::BTreeSet<Vec<u32>> = (0..40).map(|seed| window(6, 2, 1, seed).unwrap()).collect();
        assert_eq!(starts.len(), 3);
        let wrong = |experts, top_k, tokens| window(experts, top_k, tokens, 0).unwrap_err().to_string();
        assert!(wrong(6, 4, 1).starts_with("t.txt: has 2 experts per token where the model has 4; "));
        assert!(wrong(6, 2, 4).starts_with("t.txt: holds 3 tokens where batch 4 needs as many; "));
        assert!(wrong(5, 2, 1).starts_with("t.txt: line 3 names expert 5 where the model has 0 to 4; "));
    }
}
