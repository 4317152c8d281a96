//! A deterministic source of choices, and of unusual JSON.

/// xorshift64*: small, fast, and the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(mixed).expect("31 bits") % bound
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// A JSON string.
    pub fn string(&mut self) -> String {
        let odd = [
            "",
            "你好，世界",
            "a\\\"b\\\\",
            "\\u4f60\\n\\r\\u0000",
            "😀\\ud83d\\ude00",
            "}{",
            "data: x",
            "[DONE]",
            "null",
            "\\/",
            "a b\\t",
            "{\\\"a\\\":1}",
        ];
        format!("\"{}\"", self.pick(&odd))
    }

    /// A JSON number whose digits matter.
    pub fn number(&mut self) -> String {
        self.pick(&["0", "-1", "1.10", "9007199254740993", "12345678901234567890123", "1e400", "-0.0", "2E+3"])
            .to_owned()
    }

    /// Any JSON value, at most `depth` deep.
    pub fn value(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 6 }) {
            0 => "null".to_owned(),
            1 => self.pick(&["true", "false"]).to_owned(),
            2 => self.number(),
            3 => self.string(),
            4 => {
                let elements: Vec<_> = (0..self.below(3)).map(|_| self.value(depth - 1)).collect();
                format!("[{}]", elements.join(","))
            }
            _ => self.object(depth - 1),
        }
    }

    /// Any JSON value but null.
    pub fn non_null_value(&mut self) -> String {
        Some(self.value(2)).filter(|value| value != "null").unwrap_or_else(|| "0".to_owned())
    }

    pub fn object(&mut self, depth: usize) -> String {
        let mut names = vec!["a", "b_c", "messageId", "run_id", "键", "output", "type", "extra", "hai"];
        let members: Vec<_> = (0..self.below(4))
            .map(|_| {
                let name = names.swap_remove(self.below(names.len()));
                format!("\"{name}\":{}", self.value(depth))
            })
            .collect();
        format!("{{{}}}", members.join(","))
    }

    /// A JSON Patch that RFC 6902 admits.
    pub fn patch(&mut self) -> String {
        let operations: Vec<_> = (0..self.below(4))
            .map(|_| match self.below(4) {
                0 => format!(r#"{{"op":"add","path":"/a~1b/-","value":{}}}"#, self.value(2)),
                1 => r#"{"op":"remove","path":"/键"}"#.to_owned(),
                2 => r#"{"op":"move","from":"/a","path":""}"#.to_owned(),
                _ => format!(r#"{{"op":"replace","path":"/0","value":{},"future":1}}"#, self.value(1)),
            })
            .collect();
        format!("[{}]", operations.join(","))
    }

    /// Content parts of a message.
    pub fn parts(&mut self) -> String {
        let text = self.string();
        let image = r#"{"type":"image","source":{"type":"url","value":"u"},"metadata":{"n":1.0}}"#;
        format!(r#"[{{"type":"text","text":{text}}},{image}]"#)
    }

    /// A timestamp in ms since the epoch, or a counter that looks like one.
    pub fn time(&mut self) -> String {
        if self.one_in(6) {
            return self.below(1000).to_string();
        }
        (1_620_000_000_000 + self.below(1_000_000_000)).to_string()
    }
}
