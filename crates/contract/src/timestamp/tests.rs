//! The examples in AWS's documentation, and edge cases.

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn timestamps_print_as_they_are_written() {
    for text in [
        "2007T",
        "2007-02T",
        "2007-02-23",
        "2007-02-23T12:14Z",
        "2007-02-23T12:14:33Z",
        "2007-02-23T12:14:33.079-08:00",
        "2007-02-23T12:14:33.070+00:30",
        "2007-02-23T12:14-00:00",
        "0001-01-01T00:00:00.000000001Z",
    ] {
        assert_eq!(at(text).to_string(), text);
    }
    assert_eq!(at("2007-02-23T").to_string(), "2007-02-23");
    assert_eq!(at("2007-02-23T12:14:33+00:00").to_string(), "2007-02-23T12:14:33Z");
    for wrong in [
        "",
        "2007",
        "2007-02",
        "2007T12:00Z",
        "2007-02-30",
        "2007-13T",
        "0000T",
        "2007-02-23T24:00Z",
        "2007-02-23T12Z",
        "2007-02-23T12:00:00.Z",
        "2007-02-23T12:00+1:00",
        "2007-2-23",
        "x",
        "2007-02-23 12:00Z",
        "2007-02-23T12:00",
    ] {
        assert_eq!(Timestamp::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn instants_ignore_how_they_are_written() {
    assert_eq!(at("1970T").micros(), 0);
    assert_eq!(at("1970-01-02T01:30+01:30").micros(), 86_400_000_000);
    assert_eq!(at("1969-12-31T23:59:59.5Z").micros(), -500_000);
    assert_eq!(Timestamp::from_micros(1_500_000, 3).unwrap().to_string(), "1970-01-01T00:00:01.500Z");
    assert_eq!(Timestamp::from_micros(i64::MAX, 3), None);
}

#[test]
fn date_add_as_documented() {
    for (part, count, from, expected) in [
        (DatePart::Year, 5, "2010-01-01T", "2015-01-01"),
        (DatePart::Month, 1, "2010T", "2010-02T"),
        (DatePart::Month, 13, "2010T", "2011-02T"),
        (DatePart::Day, -1, "2017-01-10T", "2017-01-09"),
        (DatePart::Hour, 1, "2017T", "2017-01-01T01:00-00:00"),
        (DatePart::Hour, 1, "2017-01-02T03:04Z", "2017-01-02T04:04Z"),
        (DatePart::Minute, 1, "2017-01-02T03:04:05.006Z", "2017-01-02T03:05:05.006Z"),
        (DatePart::Second, 1, "2017-01-02T03:04:05.006Z", "2017-01-02T03:04:06.006Z"),
        (DatePart::Year, 1, "2016-02-29T", "2017-02-28"),
        (DatePart::Month, -1, "2017-03-31T10:00Z", "2017-02-28T10:00Z"),
        (DatePart::Second, -1, "2017-01-01T00:00:00+07:00", "2016-12-31T23:59:59+07:00"),
    ] {
        assert_eq!(at(from).add(part, count).unwrap().to_string(), expected);
    }
    assert_eq!(at("9999T").add(DatePart::Year, 1), None);
    assert_eq!(at("2000T").add(DatePart::Second, i64::MAX), None);
    assert_eq!(at("2000T").add(DatePart::Year, i64::MIN), None);
}

#[test]
fn date_diff_as_documented() {
    for (part, from, to, expected) in [
        (DatePart::Year, "2010-01-01T", "2011-01-01T", 1),
        (DatePart::Month, "2010T", "2010-05T", 4),
        (DatePart::Month, "2010T", "2011T", 12),
        (DatePart::Month, "2011T", "2010T", -12),
        (DatePart::Day, "2010-01-01T23:00Z", "2010-01-02T01:00Z", 0),
        (DatePart::Day, "2010-01-01T", "2010-03-01T", 59),
        (DatePart::Year, "2010-06-02T", "2011-06-01T", 0),
        (DatePart::Hour, "2017-01-01T00:00Z", "2017-01-01T00:00-08:00", 8),
        (DatePart::Second, "2017-01-01T00:00:01Z", "2017-01-01T00:00:00.5Z", 0),
        (DatePart::Minute, "2017-01-01T01:00Z", "2017-01-01T00:00Z", -60),
    ] {
        assert_eq!(at(from).until(part, &at(to)), Some(expected), "{part:?} {from} {to}");
    }
}

#[test]
fn extract_as_documented() {
    let zoned = at("2017-01-02T03:04:05+07:08");
    let parts: Vec<i64> = DatePart::ALL.into_iter().map(|part| zoned.part(part)).collect();
    assert_eq!(parts, [2017, 1, 2, 3, 4, 5, 7, 8]);
    assert_eq!(at("2010T").part(DatePart::Month), 1);
    assert_eq!(at("2017-01-02T03:04:05-07:30").part(DatePart::TimezoneMinute), -30);
    assert_eq!(DatePart::from_name("timezone_hour"), Some(DatePart::TimezoneHour));
    assert_eq!(DatePart::from_name("century"), None);
}

#[test]
fn to_string_as_documented() {
    for (timestamp, pattern, expected) in [
        ("1969-07-20T20:18Z", "MMMM d, y", "July 20, 1969"),
        ("1969-07-20T20:18Z", "MMM d, yyyy", "Jul 20, 1969"),
        ("1969-07-20T20:18Z", "M-d-yy", "7-20-69"),
        ("1969-07-20T20:18Z", "MM-d-y", "07-20-1969"),
        ("1969-07-20T20:18Z", "MMMM d, y h:m a", "July 20, 1969 8:18 PM"),
        ("1969-07-20T20:18Z", "y-MM-dd'T'H:m:ssX", "1969-07-20T20:18:00Z"),
        ("1969-07-20T20:18+08:00", "y-MM-dd'T'H:m:ssXXXX", "1969-07-20T20:18:00+0800"),
        ("1969-07-20T20:18+08:00", "y-MM-dd'T'H:m:ssXXXXX", "1969-07-20T20:18:00+08:00"),
        ("2017-01-02T03:04:05.06+07:00", "S SS SSS SSSSSSSSS n", "0 06 060 060000000 60000000"),
        ("2017-01-02T03:04:05.06+07:00", "X XX XXX x xx xxx", "+07 +0700 +07:00 +07 +0700 +07:00"),
        ("2017-01-02T00:04:05Z", "MMMMM h hh H HH mm s x", "J 12 12 0 00 04 5 +00"),
        ("2017-01-02T12:04:05-07:30", "a X", "PM -0730"),
        ("2017-01-02T", "'o''clock' ''yy", "o'clock '17"),
    ] {
        assert_eq!(Pattern::parse(pattern).unwrap().format(&at(timestamp)), expected, "{pattern}");
    }
}

#[test]
fn patterns_that_are_none() {
    for (pattern, code) in [
        ("yyy", "EvaluatorInvalidTimestampFormatPatternToken"),
        ("MMMMMM", "EvaluatorInvalidTimestampFormatPatternToken"),
        ("SSSSSSSSSS", "EvaluatorInvalidTimestampFormatPatternToken"),
        ("Q", "EvaluatorInvalidTimestampFormatPatternSymbol"),
        ("y 'abc", "EvaluatorUnterminatedTimestampFormatPatternToken"),
    ] {
        assert_eq!(Pattern::parse(pattern).unwrap_err().code(), Some(code), "{pattern}");
    }
    for (pattern, code) in [
        ("MMMMM d, y", "EvaluatorInvalidTimestampFormatPatternSymbolForParsing"),
        ("y yyyy", "EvaluatorTimestampFormatPatternDuplicateFields"),
        ("y-M-d h:m", "EvaluatorTimestampFormatPatternHourClockAmPmMismatch"),
        ("y-M-d H:m a", "EvaluatorTimestampFormatPatternHourClockAmPmMismatch"),
        ("M-d", "EvaluatorInvalidTimestampFormatPattern"),
        ("y d", "EvaluatorInvalidTimestampFormatPattern"),
    ] {
        assert_eq!(Pattern::parse(pattern).unwrap().for_reading().unwrap_err().code(), Some(code), "{pattern}");
    }
}

#[test]
fn patterns_read_what_they_write() {
    for (text, pattern, expected) in [
        ("July 20, 1969", "MMMM d, y", "1969-07-20"),
        ("7-20-69", "M-d-yy", "2069-07-20"),
        ("20/07/1999 8:18 PM", "dd/MM/yyyy h:mm a", "1999-07-20T20:18-00:00"),
        ("1969-07-20T20:18:00+0800", "y-MM-dd'T'H:m:ssXXXX", "1969-07-20T20:18:00+08:00"),
        ("1969-07-20T20:18:00.25Z", "y-MM-dd'T'H:m:ss.SSX", "1969-07-20T20:18:00.25Z"),
        ("1969", "y", "1969T"),
        ("Feb 2001", "MMM yyyy", "2001-02T"),
    ] {
        let read = Pattern::parse(pattern).unwrap().read(text);
        assert_eq!(read.map(|t| t.to_string()).as_deref(), Some(expected), "{text}");
    }
    let pattern = Pattern::parse("yyyy-MM-dd").unwrap();
    for wrong in ["", "1999-1-01", "1999-01-32", "1999-01-01x", "abcd-01-01"] {
        assert_eq!(pattern.read(wrong), None, "{wrong}");
    }
}
