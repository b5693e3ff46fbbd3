//! PTX text as statements: enough of the grammar to know instructions from everything else, whatever the spacing and names.
//!
//! Every byte of the text belongs to one statement, so printing what was parsed gives the text back.

use super::error::Refusal;

/// One statement with the blanks and comments before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    /// The text, from the end of the statement before it.
    pub text: &'a str,
    /// Bytes of `text` that are blanks and comments before the statement proper.
    pub lead: usize,
    /// Line of the statement proper, from 1.
    pub line: usize,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What a statement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// `.version`, `.reg`, `.entry` ..., with its words; an `.entry` or `.func` with a body ends before the brace.
    Directive(Vec<&'a str>),
    /// `name:`
    Label(&'a str),
    /// `{`
    Open,
    /// `}`
    Close,
    /// An instruction.
    Instruction(Instruction<'a>),
    /// Blanks and comments at the end.
    Rest,
}

/// An instruction and its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// The predicate, with whether it is negated: `@!%p1` is `(true, "%p1")`.
    pub guard: Option<(bool, &'a str)>,
    /// The opcode with its modifiers, such as `mma.sync.aligned.m16n8k16...`.
    pub opcode: &'a str,
    /// The operands.
    pub operands: Vec<Operand<'a>>,
}

/// One operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand<'a> {
    /// A register, a number, an expression: verbatim but for blanks around it.
    Plain(&'a str),
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `[a + 4]` or `[map, {x, y}]`
    Address(Vec<Operand<'a>>),
    /// `(a, b)`, the arguments of a call
    Arguments(Vec<Operand<'a>>),
}

impl<'a> Instruction<'a> {
    /// The modifiers: the parts of the opcode between dots; the first is the instruction's name.
    pub fn modifiers(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.opcode.split('.')
    }

    /// Whether the opcode has this modifier.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers().any(|part| part == modifier)
    }
}

impl<'a> Operand<'a> {
    /// The text of a plain operand.
    pub fn plain(&self) -> Option<&'a str> {
        match self {
            Operand::Plain(text) => Some(text),
            _ => None,
        }
    }

    /// The texts of a vector of plain operands.
    pub fn vector(&self) -> Option<Vec<&'a str>> {
        match self {
            Operand::Vector(parts) => parts.iter().map(Operand::plain).collect(),
            _ => None,
        }
    }
}

impl std::fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (open, parts, close) = match self {
            Operand::Plain(text) => return f.write_str(text),
            Operand::Vector(parts) => ("{", parts, "}"),
            Operand::Address(parts) => ("[", parts, "]"),
            Operand::Arguments(parts) => ("(", parts, ")"),
        };
        let parts: Vec<_> = parts.iter().map(Operand::to_string).collect();
        write!(f, "{open}{}{close}", parts.join(", "))
    }
}

impl std::fmt::Display for Instruction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((negated, predicate)) = self.guard {
            write!(f, "@{}{predicate} ", if negated { "!" } else { "" })?;
        }
        let operands: Vec<_> = self.operands.iter().map(Operand::to_string).collect();
        match operands.is_empty() {
            true => write!(f, "{};", self.opcode),
            false => write!(f, "{} {};", self.opcode, operands.join(", ")),
        }
    }
}

/// Directives that end with their line.
const OF_ONE_LINE: [&str; 5] = [".version", ".target", ".address_size", ".file", ".loc"];

/// A token: its text and where it begins.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    at: usize,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Skips blanks and comments.
    fn skip(&mut self) -> Result<(), Refusal> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let end = trimmed.find("*/").ok_or_else(|| self.broken("a comment without an end"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn broken(&self, what: &str) -> Refusal {
        Refusal::syntax(line_of(self.text, self.at), what)
    }

    /// The next token, none at the end.
    fn next(&mut self) -> Result<Option<Token<'a>>, Refusal> {
        self.skip()?;
        let at = self.at;
        let rest = &self.text[at..];
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let length = if first == '"' {
            rest[1..].find('"').ok_or_else(|| self.broken("a string without an end"))? + 2
        } else if is_word(first) {
            word_length(rest)
        } else {
            first.len_utf8()
        };
        self.at += length;
        Ok(Some(Token { text: &rest[..length], at }))
    }

    fn peek(&mut self) -> Result<Option<Token<'a>>, Refusal> {
        let at = self.at;
        let token = self.next();
        self.at = at;
        token
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.')
}

/// Length of the word at the start of the text; `kind::f8f6f4` is one word, `label:` is not.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_word(bytes[at] as char) {
            at += 1;
        } else if bytes[at..].starts_with(b"::") && bytes.get(at + 2).is_some_and(|&b| is_word(b as char)) {
            at += 2;
        } else {
            break;
        }
    }
    at
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1
}

/// Parses a whole PTX text.
///
/// # Errors
/// A statement, comment or string without an end, or brackets that do not match.
pub fn parse(text: &str) -> Result<Vec<Statement<'_>>, Refusal> {
    let mut lexer = Lexer { text, at: 0 };
    let mut statements = Vec::new();
    let (mut line, mut counted) = (1, 0);
    loop {
        let from = lexer.at;
        lexer.skip()?;
        let lead = lexer.at - from;
        line += text.as_bytes()[counted..lexer.at].iter().filter(|&&b| b == b'\n').count();
        counted = lexer.at;
        let kind = statement(&mut lexer)?;
        let ended = kind == Kind::Rest;
        if !ended || lead > 0 {
            statements.push(Statement { text: &text[from..lexer.at], lead, line, kind });
        }
        if ended {
            return Ok(statements);
        }
    }
}

/// The text of the statements.
pub fn print(statements: &[Statement<'_>]) -> String {
    statements.iter().map(|statement| statement.text).collect()
}

fn statement<'a>(lexer: &mut Lexer<'a>) -> Result<Kind<'a>, Refusal> {
    let Some(first) = lexer.next()? else { return Ok(Kind::Rest) };
    match first.text {
        "{" => return Ok(Kind::Open),
        "}" => return Ok(Kind::Close),
        // An empty statement.
        ";" => return Ok(Kind::Directive(vec![";"])),
        _ => {}
    }
    if first.text.starts_with('.') {
        return directive(lexer, first.text);
    }
    if lexer.peek()?.is_some_and(|next| next.text == ":") {
        lexer.next()?;
        return Ok(Kind::Label(first.text));
    }
    let mut token = first;
    let mut guard = None;
    let following = |lexer: &mut Lexer<'a>| lexer.next()?.ok_or_else(|| lexer.broken("an instruction without an end"));
    if token.text == "@" {
        token = following(lexer)?;
        let negated = token.text == "!";
        if negated {
            token = following(lexer)?;
        }
        guard = Some((negated, token.text));
        token = following(lexer)?;
    }
    if !token.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Err(lexer.broken(&format!("`{}` where an instruction begins", token.text)));
    }
    let operands = operands(lexer, ";")?;
    Ok(Kind::Instruction(Instruction { guard, opcode: token.text, operands }))
}

fn directive<'a>(lexer: &mut Lexer<'a>, first: &'a str) -> Result<Kind<'a>, Refusal> {
    let mut words = vec![first];
    if OF_ONE_LINE.contains(&first) {
        let rest = &lexer.text[lexer.at..];
        let line = rest.split('\n').next().unwrap_or(rest);
        let line = line.split("//").next().unwrap_or(line);
        words.extend(line.split([' ', '\t', ',', '\r']).filter(|word| !word.is_empty()));
        lexer.at += line.len();
        return Ok(Kind::Directive(words));
    }
    let (mut depth, mut value) = (0usize, first == ".section");
    loop {
        let before = lexer.at;
        let Some(token) = lexer.next()? else { return Err(lexer.broken(&format!("{first} without an end"))) };
        match token.text {
            // The brace of an initial value or a section belongs to the directive, that of a body does not.
            "{" if value => depth += 1,
            "}" if depth > 0 => {
                depth -= 1;
                if depth == 0 && first == ".section" {
                    return Ok(Kind::Directive(words));
                }
            }
            "{" | "}" => {
                lexer.at = before;
                return Ok(Kind::Directive(words));
            }
            ";" if depth == 0 => return Ok(Kind::Directive(words)),
            "=" => value = true,
            _ => {}
        }
        words.push(token.text);
    }
}

/// Operands up to the closing token, which is consumed.
fn operands<'a>(lexer: &mut Lexer<'a>, close: &str) -> Result<Vec<Operand<'a>>, Refusal> {
    let mut found = Vec::new();
    // A plain operand may be several tokens, such as `%r1 + 4`: it runs from the first to the last of them.
    let mut plain: Option<(usize, usize)> = None;
    loop {
        let Some(token) = lexer.next()? else { return Err(lexer.broken(&format!("no `{close}` before the end"))) };
        let flush = |plain: &mut Option<(usize, usize)>, found: &mut Vec<Operand<'a>>| {
            if let Some((from, to)) = plain.take() {
                found.push(Operand::Plain(&lexer.text[from..to]));
            }
        };
        match token.text {
            text if text == close => {
                flush(&mut plain, &mut found);
                return Ok(found);
            }
            "," => flush(&mut plain, &mut found),
            "{" => found.push(Operand::Vector(operands(lexer, "}")?)),
            // `name[4]` is an operand of one kind with its index.
            "[" if plain.is_none() => found.push(Operand::Address(operands(lexer, "]")?)),
            "(" if plain.is_none() => found.push(Operand::Arguments(operands(lexer, ")")?)),
            ";" | "}" => return Err(lexer.broken(&format!("`{}` where `{close}` was due", token.text))),
            text => {
                let from = plain.map_or(token.at, |(from, _)| from);
                plain = Some((from, token.at + text.len()));
            }
        }
    }
}
