//! Functions that may be pushed to storage.

/// A function that may be pushed. There are no others.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Function {
    /// `NULLIF(a, b)`: NULL where they are equal, else `a`.
    NullIf,
    /// `COALESCE(a, …)`: the first argument that is not NULL.
    Coalesce,
    /// `LOWER(text)`.
    Lower,
    /// `UPPER(text)`.
    Upper,
    /// `CHAR_LENGTH(text)`, in characters.
    CharLength,
    /// `SUBSTRING(text FROM start [FOR length])`, in characters, starting at 1.
    Substring,
    /// `TRIM(BOTH chars FROM text)`; without `chars`, spaces are trimmed.
    Trim,
    /// `TRIM(LEADING chars FROM text)`.
    TrimLeading,
    /// `TRIM(TRAILING chars FROM text)`.
    TrimTrailing,
    /// `a || b`: NULL if either is.
    Concat,
    /// The scalar inside a JSON token, as text (`"a"` gives `a`; `null` gives NULL).
    JsonText,
    /// The scalar inside a JSON token, as text that can be cast to an integer: fractions are
    /// truncated, and booleans are `1` and `0`.
    JsonWhole,
    /// The scalar inside a JSON token, as text that can be cast to a boolean: numbers other than 0
    /// are `true`.
    JsonTruth,
    /// The text inside a JSON token; NULL for anything but a string.
    JsonString,
    /// The boolean inside a JSON token; NULL for anything else.
    JsonBoolean,
    /// The JSON token itself, with NULL for `null`.
    JsonValue,
    /// A value as a JSON token: numbers with every digit, text in quotes, `true` and `false`.
    ToToken,
    /// `CAST(x AS DECIMAL)` without precision: converts text or a JSON token to the token of a
    /// number, with every digit.
    ToNumber,
    /// True if two JSON tokens are equal. Tokens of one kind are compared by value, tokens of
    /// different kinds are not equal; NULL if either is NULL.
    TokenEq,
    /// True if one JSON token is less than another; NULL if they are of different kinds.
    TokenLt,
    /// True if one JSON token is less than or equal to another; NULL if they are of different
    /// kinds.
    TokenLtEq,
    /// Bytes that sort in the order of JSON tokens: booleans, numbers by value, text, other values.
    TokenOrder,
    /// `a + b` of two JSON tokens, exact unless either is a double; NULL if either is not a number.
    TokenAdd,
    /// `a - b` of two JSON tokens.
    TokenSubtract,
    /// `a * b` of two JSON tokens.
    TokenMultiply,
    /// `a / b` of two JSON tokens; an integer if both are integers.
    TokenDivide,
    /// `a % b` of two JSON tokens, with the sign of `a`.
    TokenModulo,
    /// A LIKE pattern, rewritten from its escape character (empty text for none) to a backslash.
    LikePattern,
    /// `CAST(x AS TIMESTAMP)` of S3 Select, which yields the text of a [`crate::Timestamp`].
    ToTimestamp,
    /// `TO_TIMESTAMP(text, pattern)`, which parses text by a [`crate::Pattern`].
    ReadTimestamp,
    /// `TO_STRING(timestamp, pattern)`.
    FormatTimestamp,
    /// `DATE_ADD(part, count, timestamp)`; the part is a constant text.
    DateAdd,
    /// `DATE_DIFF(part, timestamp, timestamp)`.
    DateDiff,
    /// `EXTRACT(part FROM timestamp)`.
    Extract,
}

impl Function {
    /// The name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::NullIf => "NULLIF",
            Self::Coalesce => "COALESCE",
            Self::Lower => "LOWER",
            Self::Upper => "UPPER",
            Self::CharLength => "CHAR_LENGTH",
            Self::Substring => "SUBSTRING",
            Self::Trim => "TRIM",
            Self::TrimLeading => "LTRIM",
            Self::TrimTrailing => "RTRIM",
            Self::Concat => "CONCAT",
            Self::JsonText => "JSON_TEXT",
            Self::JsonWhole => "JSON_WHOLE",
            Self::JsonTruth => "JSON_TRUTH",
            Self::JsonString => "JSON_STRING",
            Self::JsonBoolean => "JSON_BOOLEAN",
            Self::JsonValue => "JSON_VALUE",
            Self::ToToken => "TO_TOKEN",
            Self::ToNumber => "TO_NUMBER",
            Self::TokenEq => "TOKEN_EQ",
            Self::TokenLt => "TOKEN_LT",
            Self::TokenLtEq => "TOKEN_LT_EQ",
            Self::TokenOrder => "TOKEN_ORDER",
            Self::TokenAdd => "TOKEN_ADD",
            Self::TokenSubtract => "TOKEN_SUBTRACT",
            Self::TokenMultiply => "TOKEN_MULTIPLY",
            Self::TokenDivide => "TOKEN_DIVIDE",
            Self::TokenModulo => "TOKEN_MODULO",
            Self::LikePattern => "LIKE_PATTERN",
            Self::ToTimestamp => "TO_TIMESTAMP",
            Self::ReadTimestamp => "READ_TIMESTAMP",
            Self::FormatTimestamp => "TO_STRING",
            Self::DateAdd => "DATE_ADD",
            Self::DateDiff => "DATE_DIFF",
            Self::Extract => "EXTRACT",
        }
    }
}

impl Function {
    /// True if the result is a JSON token: a number, a text in quotes, a boolean.
    pub fn yields_token(self) -> bool {
        matches!(
            self,
            Self::JsonValue
                | Self::ToToken
                | Self::ToNumber
                | Self::TokenAdd
                | Self::TokenSubtract
                | Self::TokenMultiply
                | Self::TokenDivide
                | Self::TokenModulo
        )
    }
}
