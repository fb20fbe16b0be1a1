//! Requests to storage, by kind.

use std::ops::AddAssign;

use serde::Serialize;

/// Kinds of requests that storage charges for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RequestKind {
    /// A read of an object or a range of it.
    Get,
    /// A HEAD request for one object.
    Head,
    /// A page of a listing.
    List,
    /// A write: PUT, or a request of a multipart upload.
    Put,
    /// A deletion.
    Delete,
    /// S3 Select.
    Select,
    /// A fragment, sent to a PushdownDB node.
    Fragment,
}

impl RequestKind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Get, Self::Head, Self::List, Self::Put, Self::Delete, Self::Select, Self::Fragment];
}

/// Requests sent to storage, by kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Requests {
    /// Reads of an object or a range of it.
    pub get: u64,
    /// HEAD requests for one object.
    pub head: u64,
    /// Pages of a listing.
    pub list: u64,
    /// Writes: PUT, and each request of a multipart upload.
    pub put: u64,
    /// Deletions.
    pub delete: u64,
    /// S3 Select requests.
    pub select: u64,
    /// Fragments sent to a PushdownDB node.
    pub fragment: u64,
}

impl Requests {
    /// Returns the total of all kinds.
    pub fn total(&self) -> u64 {
        RequestKind::ALL.iter().map(|kind| self.of(*kind)).sum()
    }

    /// Returns the number of requests of one `kind`.
    pub fn of(&self, kind: RequestKind) -> u64 {
        match kind {
            RequestKind::Get => self.get,
            RequestKind::Head => self.head,
            RequestKind::List => self.list,
            RequestKind::Put => self.put,
            RequestKind::Delete => self.delete,
            RequestKind::Select => self.select,
            RequestKind::Fragment => self.fragment,
        }
    }
}

impl AddAssign for Requests {
    fn add_assign(&mut self, other: Self) {
        let Self { get, head, list, put, delete, select, fragment } = other;
        self.get += get;
        self.head += head;
        self.list += list;
        self.put += put;
        self.delete += delete;
        self.select += select;
        self.fragment += fragment;
    }
}
