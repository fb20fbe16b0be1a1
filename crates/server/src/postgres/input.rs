//! Messages of the client. A length is compared with a limit and with the bytes that have arrived
//! before anything is allocated for it.

use pushdowndb_contract::{Error, Result};

/// The code of a request for TLS, sent in place of a version.
pub(super) const TLS_REQUEST: u32 = 80_877_103;

/// The code of a request for encryption by Kerberos.
pub(super) const GSS_REQUEST: u32 = 80_877_104;

/// The code of a request to cancel a query.
pub(super) const CANCEL_REQUEST: u32 = 80_877_102;

/// Maximum bytes of the startup packet, as in PostgreSQL.
pub(super) const MAX_STARTUP_BYTES: usize = 10_000;

/// What Describe and Close refer to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Target {
    Statement,
    Portal,
}

/// A message after authentication.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Message {
    Query(String),
    Parse {
        name: String,
        query: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target, String),
    Execute {
        portal: String,
        max_rows: u32,
    },
    Close(Target, String),
    Flush,
    Sync,
    Terminate,
    /// Data of a COPY that is no longer in progress.
    Copy,
}

/// The contents of a Bind message: values for the parameters of a statement.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Bind {
    pub portal: String,
    pub statement: String,
    /// Formats of the values: empty for text, one for all, or one for each value.
    pub formats: Vec<i16>,
    /// The values; `None` is NULL.
    pub values: Vec<Option<Vec<u8>>>,
    /// Formats of the result columns: empty for text, one for all, or one for each column.
    pub result_formats: Vec<i16>,
}

/// The startup packet.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Startup {
    Tls,
    Gss,
    Cancel { pid: i32, secret: Vec<u8> },
    Session { minor: u16, parameters: Vec<(String, String)> },
}

/// A reader of the fields of a message.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn short() -> Error {
        Error::invalid("a message ends before its fields do")
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(*field)
    }

    pub fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn int16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub fn int32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a count of items. Returns an error if fewer than `size` bytes per item are left.
    pub fn count(&mut self, size: usize) -> Result<usize> {
        let count = usize::from(self.array().map(u16::from_be_bytes)?);
        if count * size > self.0.len() {
            return Err(Self::short());
        }
        Ok(count)
    }

    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length).ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(field)
    }

    /// Reads a text that ends with a zero byte.
    pub fn text(&mut self) -> Result<String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(Self::short)?;
        let text = self.bytes(end)?;
        self.byte()?;
        String::from_utf8(text.to_vec()).map_err(|_| Error::invalid("a text of a message is not UTF-8"))
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn end<T>(&self, value: T) -> Result<T> {
        match self.0.is_empty() {
            true => Ok(value),
            false => Err(Error::invalid("a message goes on after its fields")),
        }
    }
}

/// Parses the startup packet, without its length.
pub(super) fn startup(bytes: &[u8]) -> Result<Startup> {
    let mut fields = Fields::new(bytes);
    let code = fields.int32()?.cast_unsigned();
    let (major, minor) = (code >> 16, u16::try_from(code & 0xFFFF).unwrap_or_default());
    match code {
        TLS_REQUEST => fields.end(Startup::Tls),
        GSS_REQUEST => fields.end(Startup::Gss),
        CANCEL_REQUEST => Ok(Startup::Cancel { pid: fields.int32()?, secret: fields.rest().to_vec() }),
        _ if major == 3 => {
            let mut parameters = Vec::new();
            loop {
                let name = fields.text()?;
                if name.is_empty() {
                    return fields.end(Startup::Session { minor, parameters });
                }
                parameters.push((name, fields.text()?));
            }
        }
        _ => Err(Error::unsupported(format!("version {major}.{minor} of the protocol; this server speaks 3.0"))),
    }
}

/// Parses a message with the type `tag`, without its length.
pub(super) fn message(tag: u8, bytes: &[u8]) -> Result<Message> {
    let mut fields = Fields::new(bytes);
    let message = match tag {
        b'Q' => Message::Query(fields.text()?),
        b'P' => {
            let (name, query) = (fields.text()?, fields.text()?);
            let types = (0..fields.count(4)?).map(|_| fields.int32().map(i32::cast_unsigned)).collect::<Result<_>>()?;
            Message::Parse { name, query, types }
        }
        b'B' => Message::Bind(bind(&mut fields)?),
        b'D' => Message::Describe(target(&mut fields)?, fields.text()?),
        b'E' => {
            let portal = fields.text()?;
            // A negative count means all rows, as in PostgreSQL.
            Message::Execute { portal, max_rows: u32::try_from(fields.int32()?).unwrap_or_default() }
        }
        b'C' => Message::Close(target(&mut fields)?, fields.text()?),
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'd' | b'c' | b'f' => {
            fields.rest();
            Message::Copy
        }
        b'F' => return Err(Error::unsupported("calls of functions by their number: use SELECT")),
        other => return Err(Error::invalid(format!("there is no message of type {other}"))),
    };
    fields.end(message)
}

fn target(fields: &mut Fields<'_>) -> Result<Target> {
    match fields.byte()? {
        b'S' => Ok(Target::Statement),
        b'P' => Ok(Target::Portal),
        other => Err(Error::invalid(format!("{other} is neither a statement nor a portal"))),
    }
}

fn bind(fields: &mut Fields<'_>) -> Result<Bind> {
    let (portal, statement) = (fields.text()?, fields.text()?);
    let formats = (0..fields.count(2)?).map(|_| fields.int16()).collect::<Result<_>>()?;
    let mut values = Vec::new();
    for _ in 0..fields.count(4)? {
        values.push(match fields.int32()? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| Error::invalid("a value of negative length"))?;
                Some(fields.bytes(length)?.to_vec())
            }
        });
    }
    let result_formats = (0..fields.count(2)?).map(|_| fields.int16()).collect::<Result<_>>()?;
    Ok(Bind { portal, statement, formats, values, result_formats })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        assert_eq!(message(b'Q', b"select 1\0").unwrap(), Message::Query("select 1".to_owned()));
        let parse = Message::Parse { name: "s".to_owned(), query: "q".to_owned(), types: vec![23] };
        assert_eq!(message(b'P', b"s\0q\0\0\x01\0\0\0\x17").unwrap(), parse);
        let bound = message(b'B', b"\0s\0\0\0\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\x01\0\x01").unwrap();
        let Message::Bind(bound) = bound else { panic!("{bound:?}") };
        assert_eq!((bound.values, bound.result_formats), (vec![Some(b"x".to_vec()), None], vec![1]));
    }

    #[test]
    fn bytes_of_any_kind_are_an_error_and_no_panic() {
        // All messages of up to 23 bytes that repeat a few byte values, of every type.
        for tag in 0..=255 {
            for first in [0_u8, 1, 2, 80, 83, 127, 128, 255] {
                for length in 0..24 {
                    let bytes: Vec<u8> = (0..length).map(|at| if at % 3 == 0 { first } else { 255 - first }).collect();
                    let _ = message(tag, &bytes);
                    let _ = startup(&bytes);
                    let _ = message(tag, &vec![first; length]);
                }
            }
        }
        assert!(message(b'P', b"s\0q\0\xff\xff").is_err(), "65,535 types without their bytes");
        assert!(message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff").is_err(), "a value of 2 GiB");
        assert!(message(b'Q', b"no end").is_err());
        assert!(message(b'S', b"more").is_err());
    }

    #[test]
    fn startups_are_read() {
        assert_eq!(startup(&TLS_REQUEST.to_be_bytes()).unwrap(), Startup::Tls);
        let session = startup(b"\0\x03\0\0user\0ann\0\0").unwrap();
        let parameters = vec![("user".to_owned(), "ann".to_owned())];
        assert_eq!(session, Startup::Session { minor: 0, parameters });
        assert!(startup(b"\0\x02\0\0").is_err(), "an old version");
        assert!(startup(b"\0\x03\0\0user\0ann\0").is_err(), "no end");
    }
}
