//! Routing: from tokens to experts.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::draw;
use super::error::{Error, quote};
use super::trace::Trace;
use super::{Assignment, MAX_EXPERTS, MAX_ROWS};

/// Largest exponent of [`Routing::PowerLaw`]: above 2 the law grows more even again.
pub const MAX_ALPHA: f64 = 2.0;

const KINDS: &str = "uniform, balanced, same, power-law:ALPHA, trace:FILE or rows:12,0,5";

/// How tokens are sent to experts. Written as on the command line by `Display` and read back by `FromStr`.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// Each token draws distinct experts, every choice with the same chance.
    Uniform,
    /// As even as possible: rows of any two experts differ by at most 1.
    Balanced,
    /// Some experts are popular. See [`Routing::assignment`] for the law.
    PowerLaw(f64),
    /// Every token visits the same experts.
    Same,
    /// Recorded expert ids.
    Trace(PathBuf),
    /// Rows per expert of this GPU; which token they belong to is not known.
    Rows(Vec<u32>),
}

/// What a routing is to be drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Experts of the layer, before expert parallelism.
    pub experts: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Tokens.
    pub tokens: u32,
    /// Seed.
    pub seed: u64,
}

impl Routing {
    /// The experts of each token; `None` for [`Routing::Rows`], which has none.
    ///
    /// All numbers come from [`super::Rng`], so equal seeds give equal assignments on every machine and in every
    /// version; except for `balanced` and `trace`, the tokens of a smaller batch are the first ones of a larger.
    ///
    /// - `uniform`: the first k of a random permutation of the experts.
    /// - `balanced`: the experts in one seeded order, dealt out k at a time, round and round.
    /// - `same`: k experts drawn once.
    /// - `power-law:ALPHA`: each expert gets a popularity with density `x^-ALPHA` on [1, 819.2], drawn independently.
    ///   The popularities are scaled to sum to k, none above 1 (what is cut off goes to the others in proportion), and
    ///   are then exactly the chance of each expert to be among the k distinct ones of a token (systematic sampling in
    ///   a new random order for each token). This is the law that ai-dynamo/aiconfigurator
    ///   (docs/POWER_LAW_DISTRIBUTION.md) fits to served models: ALPHA 1.01 for DeepSeek-V3/R1, 1.2 for Qwen3-235B
    ///   and typical production. There the upper end is 0.8 of the tokens; it is fixed here to its value at 1024
    ///   tokens, because popularity belongs to the layer and must not change along a sweep of batches.
    /// - `trace`: a window of consecutive tokens, at a seeded place, see [`Trace`].
    ///
    /// # Errors
    /// When the trace cannot be used, or the draw asks for more experts per token than there are, for none, for no
    /// token, or for more than [`MAX_EXPERTS`] experts or [`MAX_ROWS`] rows.
    pub fn assignment(&self, draw: Draw) -> Result<Option<Assignment>, Error> {
        check(draw)?;
        self.assignment_from(self.trace()?.as_ref(), draw)
    }

    /// The trace that this routing reads, so that it can be read once for many draws.
    pub(super) fn trace(&self) -> Result<Option<Trace>, Error> {
        match self {
            Routing::Trace(path) => Trace::read(path).map(Some),
            _ => Ok(None),
        }
    }

    /// [`Routing::assignment`] with what [`Routing::trace`] gave.
    pub(super) fn assignment_from(&self, trace: Option<&Trace>, draw: Draw) -> Result<Option<Assignment>, Error> {
        check(draw)?;
        let Draw { experts, top_k, .. } = draw;
        let ids = match (self, trace) {
            (Routing::Uniform, _) => draw::uniform(draw),
            (Routing::Balanced, _) => draw::balanced(draw),
            (Routing::Same, _) => draw::same(draw),
            (Routing::PowerLaw(alpha), _) => draw::power_law(draw, check_alpha(*alpha)?),
            (Routing::Trace(_), Some(trace)) => trace.window(draw)?,
            (Routing::Trace(_), None) | (Routing::Rows(_), _) => return Ok(None),
        };
        Ok(Some(Assignment::new(experts, top_k, ids)))
    }
}

fn check(draw: Draw) -> Result<(), Error> {
    let Draw { experts, top_k, tokens, .. } = draw;
    let what = || format!("a routing of {tokens} tokens to {top_k} of {experts} experts");
    if tokens == 0 || top_k == 0 || top_k > experts || experts > MAX_EXPERTS {
        let remedy = format!("give at least 1 token, and 1 to {experts} experts per token");
        return Err(Error::value(what(), "cannot be drawn", remedy));
    }
    if u64::from(tokens) * u64::from(top_k) > MAX_ROWS {
        return Err(Error::value(what(), format!("has more than {MAX_ROWS} rows"), "give a smaller --batch"));
    }
    Ok(())
}

fn check_alpha(alpha: f64) -> Result<f64, Error> {
    // Written so that NaN is refused too.
    if alpha > 0.0 && alpha <= MAX_ALPHA {
        return Ok(alpha);
    }
    Err(Error::value(
        format!("routing power-law:{alpha}"),
        format!("has an exponent outside (0, {MAX_ALPHA}]"),
        "give one such as 1.01 or 1.2, or use `balanced` or `uniform`",
    ))
}

impl fmt::Display for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Routing::Uniform => f.write_str("uniform"),
            Routing::Balanced => f.write_str("balanced"),
            Routing::Same => f.write_str("same"),
            Routing::PowerLaw(alpha) => write!(f, "power-law:{alpha}"),
            Routing::Trace(path) => write!(f, "trace:{}", path.display()),
            Routing::Rows(rows) => {
                let runs: Vec<String> = rows
                    .chunk_by(|a, b| a == b)
                    .map(|run| match run {
                        [one] => one.to_string(),
                        _ => format!("{}x{}", run[0], run.len()),
                    })
                    .collect();
                write!(f, "rows:{}", runs.join(","))
            }
        }
    }
}

impl FromStr for Routing {
    type Err = Error;

    /// Reads a routing word. In `rows:`, `16x4` stands for `16,16,16,16`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |problem: String| Error::value(format!("routing {}", quote(text)), problem, format!("use {KINDS}"));
        match text.split_once(':') {
            None => match text {
                "uniform" => Ok(Routing::Uniform),
                "balanced" => Ok(Routing::Balanced),
                "same" => Ok(Routing::Same),
                _ => Err(wrong("is not known".into())),
            },
            Some(("power-law", alpha)) => {
                let alpha = alpha.parse().map_err(|_| wrong(format!("has {} for an exponent", quote(alpha))))?;
                check_alpha(alpha).map(Routing::PowerLaw)
            }
            Some(("trace", "")) => Err(wrong("names no file".into())),
            Some(("trace", file)) => Ok(Routing::Trace(file.into())),
            Some(("rows", list)) => rows(list).map(Routing::Rows).map_err(wrong),
            Some(_) => Err(wrong("is not known".into())),
        }
    }
}

/// Reads `12,0,16x4`.
fn rows(list: &str) -> Result<Vec<u32>, String> {
    let mut rows = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (count, times) = part.split_once('x').unwrap_or((part, "1"));
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("has {} for a number of rows", quote(part)));
        let (count, times) = (number(count)?, number(times)?);
        if times == 0 || rows.len() + times as usize > MAX_EXPERTS as usize {
            return Err(format!("has {} where 1 to {MAX_EXPERTS} experts can be listed", quote(part)));
        }
        rows.resize(rows.len() + times as usize, count);
    }
    if rows.iter().map(|&r| u64::from(r)).sum::<u64>() > MAX_ROWS {
        return Err(format!("has more than {MAX_ROWS} rows"));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_way_to_text_and_back() {
        for word in ["uniform", "balanced", "same", "power-law:1.2", "trace:a/b:c.txt", "rows:12,0x3,5"] {
            assert_eq!(word.parse::<Routing>().unwrap().to_string(), word);
        }
        assert_eq!("rows:4, 4,4,0".parse::<Routing>().unwrap(), Routing::Rows(vec![4, 4, 4, 0]));
    }

    #[test]
    fn bad_words_are_refused_with_the_known_ones() {
        for word in [
            "",
            "Uniform",
            "power-law",
            "power-law:",
            "power-law:0",
            "power-law:-1",
            "power-law:2.1",
            "power-law:nan",
            "power-law:inf",
            "trace:",
            "rows:",
            "rows:1,,2",
            "rows:-1",
            "rows:4294967296",
            "rows:1x0",
            "rows:1x4097",
            "rows:1x4294967295,1x4294967295",
            "rows:4294967295,4294967295",
            "zipf:1",
        ] {
            let error = word.parse::<Routing>().unwrap_err().to_string();
            assert!(error.starts_with("routing ") && !error.contains('\n'), "{word}: {error}");
        }
        assert_eq!(
            "unifrom".parse::<Routing>().unwrap_err().to_string(),
            "routing `unifrom` is not known; use uniform, balanced, same, power-law:ALPHA, trace:FILE or rows:12,0,5"
        );
    }
}
