//! Requests of the fragment route: any bytes decode to an error or to a request that encodes and
//! decodes to an equal one, and whose scan of some object does not panic.

use pushdowndb_contract::Format;
use pushdowndb_contract::wire::Request;
use pushdowndb_scan::output_schema;

use crate::scans::{Reading, read};

const CSV: &[u8] = b"a,b,c\n1,x,1.50\n-2,\"y,\"\"z\",\n,,\n";

const JSON: &[u8] = b"{\"a\":1,\"b\":\"x\",\"c\":1.5}\n{\"a\":null}\n{\"b\":\"\\u00e9\"}\n";

pub fn run(input: &[u8]) {
    let Ok(request) = Request::from_bytes(input) else { return };
    let bytes = request.to_bytes().expect("what was read can be written");
    let again = Request::from_bytes(&bytes).expect("what was written can be read");
    // A request with NaN does not equal itself, but its text does.
    assert!(request == again || format!("{request:?}") == format!("{again:?}"), "{request:?} became {again:?}");
    let Request::Fragment(request) = request else { return };
    if output_schema(&request.fragment).is_err() {
        return;
    }
    let object = match &request.fragment.format {
        Format::Csv(_) => CSV,
        Format::Json(_) => JSON,
        // Footers of Parquet objects are another target.
        Format::Parquet => return,
    };
    drop(read(&request.fragment, object, &Reading::default()));
}
