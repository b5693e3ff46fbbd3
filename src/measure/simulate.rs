//! How often verdicts are wrong: subjects with known times and realistic noise.
