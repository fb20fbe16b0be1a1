//! Expressions, encoded as lists of nodes in postfix order. Each node takes its operands from a
//! stack.
//!
//! So decoding needs no recursion, and an expression that is too deep is an ordinary error.

use std::sync::Arc;

use prost::Message;

use super::types::{read_type, write_type};
use super::{codes, missing, unknown, write_list};
use crate::{ArithmeticOp, BloomFilter, CompareOp, Error, Expr, Function, Literal, Result, limits};

/// One node. The kind determines which fields are used.
#[derive(Clone, PartialEq, Message)]
struct NodeMessage {
    /// See [`Kind`].
    #[prost(uint32, tag = "1")]
    kind: u32,
    /// The code of the operator or function.
    #[prost(uint32, tag = "2")]
    op: u32,
    /// The number of operands, or of branches of a CASE.
    #[prost(uint32, tag = "3")]
    count: u32,
    /// IN and LIKE: negated; timestamps: an instant; CASE: has an ELSE; booleans: the value.
    #[prost(bool, tag = "4")]
    flag: bool,
    #[prost(bool, tag = "5")]
    case_insensitive: bool,
    /// The index of a column, or the value of an integer, date or timestamp.
    #[prost(sint64, tag = "7")]
    int: i64,
    /// The value of a float. The field is optional because protobuf omits a plain field with the
    /// value zero, and so would turn -0.0 into 0.0.
    #[prost(double, optional, tag = "8")]
    float: Option<f64>,
    #[prost(string, tag = "9")]
    text: String,
    /// A decimal as 16 bytes big endian, a type, or a Bloom filter.
    #[prost(bytes = "vec", tag = "10")]
    bytes: Vec<u8>,
    #[prost(uint32, tag = "11")]
    precision: u32,
    #[prost(sint32, tag = "12")]
    scale: i32,
}

/// The kinds of node.
mod kind {
    pub const COLUMN: u32 = 1;
    pub const NULL: u32 = 2;
    pub const BOOLEAN: u32 = 3;
    pub const INT64: u32 = 4;
    pub const DECIMAL: u32 = 5;
    pub const FLOAT64: u32 = 6;
    pub const UTF8: u32 = 7;
    pub const DATE: u32 = 8;
    pub const TIMESTAMP: u32 = 9;
    pub const COMPARE: u32 = 10;
    pub const AND: u32 = 11;
    pub const OR: u32 = 12;
    pub const NOT: u32 = 13;
    pub const IS_NULL: u32 = 14;
    pub const ARITHMETIC: u32 = 15;
    pub const NEGATE: u32 = 16;
    pub const IN_LIST: u32 = 17;
    pub const LIKE: u32 = 18;
    pub const CAST: u32 = 19;
    pub const CASE: u32 = 20;
    pub const CALL: u32 = 21;
    pub const BLOOM: u32 = 22;
    pub const BLOOM_OF_SEVERAL: u32 = 23;
}

codes! {
    compare_op: CompareOp, "comparison" {
        CompareOp::Eq = 1;
        CompareOp::NotEq = 2;
        CompareOp::Lt = 3;
        CompareOp::LtEq = 4;
        CompareOp::Gt = 5;
        CompareOp::GtEq = 6;
    }
    arithmetic_op: ArithmeticOp, "operator" {
        ArithmeticOp::Add = 1;
        ArithmeticOp::Subtract = 2;
        ArithmeticOp::Multiply = 3;
        ArithmeticOp::Divide = 4;
        ArithmeticOp::Modulo = 5;
    }
    function: Function, "function" {
        Function::NullIf = 1;
        Function::Coalesce = 2;
        Function::Lower = 3;
        Function::Upper = 4;
        Function::CharLength = 5;
        Function::Substring = 6;
        Function::Trim = 7;
        Function::TrimLeading = 8;
        Function::TrimTrailing = 9;
        Function::Concat = 10;
        Function::JsonText = 11;
        Function::JsonString = 12;
        Function::JsonBoolean = 13;
        Function::JsonValue = 14;
        Function::ToToken = 15;
        Function::ToNumber = 16;
        Function::TokenEq = 17;
        Function::TokenLt = 18;
        Function::TokenLtEq = 19;
        Function::TokenOrder = 20;
        Function::TokenAdd = 21;
        Function::TokenSubtract = 22;
        Function::TokenMultiply = 23;
        Function::TokenDivide = 24;
        Function::TokenModulo = 25;
        Function::LikePattern = 26;
        Function::ToTimestamp = 27;
        Function::ReadTimestamp = 28;
        Function::FormatTimestamp = 29;
        Function::DateAdd = 30;
        Function::DateDiff = 31;
        Function::Extract = 32;
        Function::JsonWhole = 33;
        Function::JsonTruth = 34;
    }
}

/// Encodes an expression. Returns an `Unsupported` error if it exceeds the limits of a peer.
pub fn write_expr(expr: &Expr) -> Result<Vec<u8>> {
    if expr.depth() > limits::EXPRESSION_DEPTH || expr.size() > limits::EXPRESSION_NODES {
        return Err(Error::unsupported("an expression is too large for the fragment route"));
    }
    let mut nodes = Vec::new();
    push_nodes(expr, &mut nodes)?;
    write_list(nodes)
}

/// Appends the nodes of an expression. Expects that `write_expr` has checked the depth.
fn push_nodes(expr: &Expr, nodes: &mut Vec<NodeMessage>) -> Result<()> {
    for child in expr.children() {
        push_nodes(child, nodes)?;
    }
    nodes.push(node(expr)?);
    Ok(())
}

fn node(expr: &Expr) -> Result<NodeMessage> {
    let of = |kind| NodeMessage { kind, ..NodeMessage::default() };
    let count = |kind, all: &[Expr]| {
        let count = u32::try_from(all.len()).map_err(|_| Error::unsupported("an expression has too many operands"))?;
        Ok::<_, Error>(NodeMessage { count, ..of(kind) })
    };
    Ok(match expr {
        Expr::Column(index) => {
            let int = i64::try_from(*index).map_err(|_| Error::internal("a column beyond all columns"))?;
            NodeMessage { int, ..of(kind::COLUMN) }
        }
        Expr::Literal(literal) => match literal {
            Literal::Null => of(kind::NULL),
            Literal::Boolean(value) => NodeMessage { flag: *value, ..of(kind::BOOLEAN) },
            Literal::Int64(value) => NodeMessage { int: *value, ..of(kind::INT64) },
            Literal::Decimal(value, precision, scale) => NodeMessage {
                bytes: value.to_be_bytes().to_vec(),
                precision: u32::from(*precision),
                scale: i32::from(*scale),
                ..of(kind::DECIMAL)
            },
            Literal::Float64(value) => NodeMessage { float: Some(*value), ..of(kind::FLOAT64) },
            Literal::Utf8(value) => NodeMessage { text: value.clone(), ..of(kind::UTF8) },
            Literal::Date(days) => NodeMessage { int: i64::from(*days), ..of(kind::DATE) },
            Literal::Timestamp(micros, utc) => NodeMessage { int: *micros, flag: *utc, ..of(kind::TIMESTAMP) },
        },
        Expr::Compare(op, ..) => NodeMessage { op: compare_op::code(*op), ..of(kind::COMPARE) },
        Expr::And(all) => count(kind::AND, all)?,
        Expr::Or(all) => count(kind::OR, all)?,
        Expr::Not(_) => of(kind::NOT),
        Expr::IsNull(_) => of(kind::IS_NULL),
        Expr::Arithmetic(op, ..) => NodeMessage { op: arithmetic_op::code(*op), ..of(kind::ARITHMETIC) },
        Expr::Negate(_) => of(kind::NEGATE),
        Expr::InList { list, negated, .. } => NodeMessage { flag: *negated, ..count(kind::IN_LIST, list)? },
        Expr::Like { negated, case_insensitive, .. } => {
            NodeMessage { flag: *negated, case_insensitive: *case_insensitive, ..of(kind::LIKE) }
        }
        Expr::Cast(_, to) => NodeMessage { bytes: write_type(to)?, ..of(kind::CAST) },
        Expr::Case { branches, otherwise } => NodeMessage {
            count: u32::try_from(branches.len()).map_err(|_| Error::unsupported("a CASE has too many branches"))?,
            flag: otherwise.is_some(),
            ..of(kind::CASE)
        },
        Expr::Call(function, all) => NodeMessage { op: function::code(*function), ..count(kind::CALL, all)? },
        Expr::Bloom { keys, filter } => {
            let node = match keys.len() {
                1 => of(kind::BLOOM),
                _ => count(kind::BLOOM_OF_SEVERAL, keys)?,
            };
            NodeMessage { bytes: filter.to_bytes(), ..node }
        }
    })
}

/// Decodes an expression over a schema with `columns` columns.
pub fn read_expr(mut bytes: &[u8], columns: usize) -> Result<Expr> {
    let mut stack = Stack::default();
    let mut nodes = 0;
    while !bytes.is_empty() {
        nodes += 1;
        if nodes > limits::EXPRESSION_NODES {
            return Err(Error::invalid(format!("an expression has more than {} nodes", limits::EXPRESSION_NODES)));
        }
        let node = NodeMessage::decode_length_delimited(&mut bytes).map_err(super::malformed)?;
        let expr = read_node(node, &mut stack, columns)?;
        stack.push(expr)?;
    }
    stack.finish()
}

/// The operands that no node has taken yet, each with its depth.
#[derive(Default)]
struct Stack {
    all: Vec<(Expr, usize)>,
    /// The depth of the deepest operand taken since the last push.
    deepest: usize,
}

impl Stack {
    fn pop(&mut self) -> Result<Expr> {
        let (expr, depth) = self.all.pop().ok_or_else(|| missing("operands of an expression"))?;
        self.deepest = self.deepest.max(depth);
        Ok(expr)
    }

    fn pop_boxed(&mut self) -> Result<Box<Expr>> {
        self.pop().map(Box::new)
    }

    /// Takes the last `count` operands, in the order in which they were pushed.
    fn pop_all(&mut self, count: u32) -> Result<Vec<Expr>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let at = self.all.len().checked_sub(count).ok_or_else(|| missing("operands of an expression"))?;
        let taken = self.all.split_off(at);
        self.deepest = taken.iter().map(|(_, depth)| *depth).fold(self.deepest, usize::max);
        Ok(taken.into_iter().map(|(expr, _)| expr).collect())
    }

    fn push(&mut self, expr: Expr) -> Result<()> {
        let depth = std::mem::take(&mut self.deepest) + 1;
        if depth > limits::EXPRESSION_DEPTH {
            return Err(Error::invalid(format!("expressions may be nested {} levels deep", limits::EXPRESSION_DEPTH)));
        }
        self.all.push((expr, depth));
        Ok(())
    }

    fn finish(mut self) -> Result<Expr> {
        let expr = self.pop()?;
        if self.all.is_empty() { Ok(expr) } else { Err(Error::invalid("an expression has operands that nobody takes")) }
    }
}

fn read_node(node: NodeMessage, stack: &mut Stack, columns: usize) -> Result<Expr> {
    let out_of_range = || Error::invalid("the request is malformed: a value is out of its range");
    Ok(match node.kind {
        kind::COLUMN => {
            let index = usize::try_from(node.int).ok().filter(|index| *index < columns);
            Expr::Column(index.ok_or_else(|| Error::invalid(format!("there is no column {}", node.int)))?)
        }
        kind::NULL => Expr::Literal(Literal::Null),
        kind::BOOLEAN => Expr::Literal(Literal::Boolean(node.flag)),
        kind::INT64 => Expr::Literal(Literal::Int64(node.int)),
        kind::DECIMAL => {
            let bytes = <[u8; 16]>::try_from(node.bytes.as_slice()).map_err(|_| out_of_range())?;
            let precision = u8::try_from(node.precision).ok().filter(|p| (1..=38).contains(p));
            let scale = i8::try_from(node.scale).ok().filter(|s| (-38..=38).contains(s));
            let (precision, scale) = precision.zip(scale).ok_or_else(out_of_range)?;
            Expr::Literal(Literal::Decimal(i128::from_be_bytes(bytes), precision, scale))
        }
        kind::FLOAT64 => Expr::Literal(Literal::Float64(node.float.unwrap_or_default())),
        kind::UTF8 => Expr::Literal(Literal::Utf8(node.text)),
        kind::DATE => Expr::Literal(Literal::Date(i32::try_from(node.int).map_err(|_| out_of_range())?)),
        kind::TIMESTAMP => Expr::Literal(Literal::Timestamp(node.int, node.flag)),
        kind::COMPARE => {
            let right = stack.pop_boxed()?;
            Expr::Compare(compare_op::read(node.op)?, stack.pop_boxed()?, right)
        }
        kind::AND => Expr::And(stack.pop_all(node.count)?),
        kind::OR => Expr::Or(stack.pop_all(node.count)?),
        kind::NOT => Expr::Not(stack.pop_boxed()?),
        kind::IS_NULL => Expr::IsNull(stack.pop_boxed()?),
        kind::ARITHMETIC => {
            let right = stack.pop_boxed()?;
            Expr::Arithmetic(arithmetic_op::read(node.op)?, stack.pop_boxed()?, right)
        }
        kind::NEGATE => Expr::Negate(stack.pop_boxed()?),
        kind::IN_LIST => {
            let list = stack.pop_all(node.count)?;
            Expr::InList { expr: stack.pop_boxed()?, list, negated: node.flag }
        }
        kind::LIKE => {
            let pattern = stack.pop_boxed()?;
            let expr = stack.pop_boxed()?;
            Expr::Like { expr, pattern, negated: node.flag, case_insensitive: node.case_insensitive }
        }
        kind::CAST => Expr::Cast(stack.pop_boxed()?, read_type(&node.bytes)?),
        kind::CASE => {
            let otherwise = if node.flag { Some(stack.pop_boxed()?) } else { None };
            let mut branches = Vec::new();
            let mut operands = stack.pop_all(node.count.checked_mul(2).ok_or_else(out_of_range)?)?.into_iter();
            while let (Some(when), Some(then)) = (operands.next(), operands.next()) {
                branches.push((when, then));
            }
            Expr::Case { branches, otherwise }
        }
        kind::CALL => Expr::Call(function::read(node.op)?, stack.pop_all(node.count)?),
        kind::BLOOM => {
            let filter = BloomFilter::from_bytes(&node.bytes)?;
            Expr::Bloom { keys: vec![*stack.pop_boxed()?], filter: Arc::new(filter) }
        }
        kind::BLOOM_OF_SEVERAL => {
            let filter = BloomFilter::from_bytes(&node.bytes)?;
            let keys = stack.pop_all(node.count)?;
            if keys.is_empty() {
                return Err(missing("the keys of a Bloom filter"));
            }
            if filter.is_of_numbers() {
                return Err(Error::invalid("a set of whole numbers holds no keys of several values"));
            }
            Expr::Bloom { keys, filter: Arc::new(filter) }
        }
        other => return Err(unknown("expression", other)),
    })
}
