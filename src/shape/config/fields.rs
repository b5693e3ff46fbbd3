//! Typed access to the fields of a config, with sentences that name file, field and remedy.

use serde_json::{Map, Value};

use super::super::error::{Error, quote};

/// One object of a JSON file.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    path: &'a str,
    /// Names of the objects around, each with a dot behind it.
    prefix: &'a str,
    object: &'a Map<String, Value>,
}

/// A number under the name that this file uses for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub key: &'a str,
    pub value: u32,
}

impl<'a> Fields<'a> {
    pub(super) fn new(path: &'a str, prefix: &'a str, object: &'a Map<String, Value>) -> Self {
        Fields { path, prefix, object }
    }

    /// An object found in this one; `prefix` names it and the objects around it.
    pub(super) fn within(&self, prefix: &'a str, object: &'a Map<String, Value>) -> Fields<'a> {
        Fields { path: self.path, prefix, object }
    }

    /// The first field, which must be an object.
    pub(super) fn first_object(&self) -> Result<Option<Fields<'a>>, Error> {
        let Some((key, _)) = self.object.iter().next() else { return Ok(None) };
        Ok(self.object(key)?.map(|object| self.within(self.prefix, object)))
    }

    /// The value of a field that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    /// A whole number from 0, or a list of one such number for each layer when all are the same.
    pub(super) fn number(&self, key: &str) -> Result<Option<u32>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.as_array().map(Vec::as_slice) {
            None => whole(value),
            Some([first, others @ ..]) if others.iter().all(|other| other == first) => whole(first),
            Some([_, _, ..]) => {
                let remedy = "models whose layers differ need --shape H,I,E,K, one layer at a time";
                return Err(self.wrong(key, "is a list of different values", remedy));
            }
            Some(_) => None,
        };
        match number {
            Some(number) => Ok(Some(number)),
            None => {
                Err(self.wrong(key, &format!("is {}", describe(value)), "give a whole number from 0 to 4294967295"))
            }
        }
    }

    /// The number that is written under the first of `keys` that is there. Other ones that are there too must agree.
    pub(super) fn first_number(&self, keys: &[&'a str]) -> Result<Option<Found<'a>>, Error> {
        let mut found: Option<Found<'a>> = None;
        for &key in keys {
            let Some(value) = self.number(key)? else { continue };
            match found {
                None => found = Some(Found { key, value }),
                Some(first) if first.value != value => {
                    let problem = format!("is {value} but `{}{}` is {}", self.prefix, first.key, first.value);
                    return Err(self.wrong(key, &problem, "remove the one that is wrong"));
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }

    /// As [`Fields::first_number`], but it must be there and not 0.
    pub(super) fn required(&self, keys: &[&'a str]) -> Result<Found<'a>, Error> {
        match self.first_number(keys)? {
            Some(found) if found.value > 0 => Ok(found),
            Some(found) => Err(self.wrong(found.key, "is 0", "give a whole number from 1")),
            None => {
                let remedy = match keys {
                    [_] => "give the config.json of the checkpoint".to_owned(),
                    [_, others @ ..] => format!("give it, or one of {}", others.join(", ")),
                    [] => String::new(),
                };
                Err(self.wrong(keys.first().copied().unwrap_or_default(), "is missing", &remedy))
            }
        }
    }

    /// A list of layer numbers, or of numbers per layer.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<u32>>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.as_array().and_then(|list| list.iter().map(whole).collect());
        match list {
            Some(list) => Ok(Some(list)),
            None => Err(self.wrong(key, &format!("is {}", describe(value)), "give a list of whole numbers")),
        }
    }

    /// A list of words.
    pub(super) fn words(&self, key: &str) -> Result<Option<Vec<&'a str>>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        match list {
            Some(list) => Ok(Some(list)),
            None => Err(self.wrong(key, &format!("is {}", describe(value)), "give a list of words")),
        }
    }

    /// A word.
    pub(super) fn word(&self, key: &str) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_str() {
            Some(word) => Ok(Some(word)),
            None => Err(self.wrong(key, &format!("is {}", describe(value)), "give a word in quotes")),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.wrong(key, &format!("is {}", describe(value)), "give true or false")),
        }
    }

    /// A number of any kind; JSON has none that is not finite.
    pub(super) fn real(&self, key: &str) -> Result<Option<f64>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64() {
            Some(real) => Ok(Some(real)),
            None => Err(self.wrong(key, &format!("is {}", describe(value)), "give a number")),
        }
    }

    /// An object within this one.
    pub(super) fn object(&self, key: &str) -> Result<Option<&'a Map<String, Value>>, Error> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_object() {
            Some(object) => Ok(Some(object)),
            None => Err(self.wrong(key, &format!("is {}", describe(value)), "give an object in braces")),
        }
    }

    /// An error about a field of this object.
    pub(super) fn wrong(&self, key: &str, problem: &str, remedy: &str) -> Error {
        Error::Field {
            path: self.path.to_owned(),
            field: format!("{}{key}", self.prefix),
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// An error about the whole file.
    pub(super) fn wrong_file(&self, problem: &str, remedy: &str) -> Error {
        Error::File { path: self.path.to_owned(), problem: problem.to_owned(), remedy: remedy.to_owned() }
    }
}

/// A whole number from 0, also when it is written `8.0`.
fn whole(value: &Value) -> Option<u32> {
    match value.as_u64() {
        Some(number) => number.try_into().ok(),
        None => {
            value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(x)).map(|x| x as u32)
        }
    }
}

/// A value in a few words.
fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the text {}", quote(text)),
        Value::Array(list) => format!("a list of {}", list.len()),
        Value::Object(object) => format!("an object with {} fields", object.len()),
    }
}
