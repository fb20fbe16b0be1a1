"""ListObjects v1 and v2: prefixes, delimiters, pages, encoding."""

from urllib.parse import quote

from conformance.s3.context import expect, keys_of, prefixes_of, test

NAMES = ["asdf", "boo/bar", "boo/baz/xyzzy", "cquux/bla", "cquux/thud"]
BOTH = ("list_objects", "list_objects_v2")


def shared(c, name, keys):
    """A bucket with these keys, made once."""
    cache = c.__dict__.setdefault("_filled", {})
    if name not in cache:
        cache[name] = c.filled(keys)
    return cache[name]


def listed(c, version, bucket, **more):
    answer = getattr(c.s3, version)(Bucket=bucket, **more)
    return keys_of(answer), prefixes_of(answer)


def pages(c, version, bucket, size, **more):
    """All pages, following markers or tokens by hand."""
    found, seen, after = [], 0, {}
    while True:
        answer = getattr(c.s3, version)(Bucket=bucket, MaxKeys=size, **more, **after)
        found.append((keys_of(answer), prefixes_of(answer)))
        seen += 1
        assert len(found[-1][0]) + len(found[-1][1]) <= size and seen < 200
        if not answer["IsTruncated"]:
            return found
        if version == "list_objects_v2":
            after = {"ContinuationToken": answer["NextContinuationToken"]}
        else:
            after = {"Marker": answer.get("NextMarker") or answer["Contents"][-1]["Key"]}


@test(*BOTH)
def nothing(c, version):
    answer = getattr(c.s3, version)(Bucket=shared(c, "empty", []))
    assert keys_of(answer) == [] and not answer["IsTruncated"] and answer["MaxKeys"] == 1000


@test(*BOTH)
def entries_are_complete(c, version):
    bucket = shared(c, "names", NAMES)
    entry = getattr(c.s3, version)(Bucket=bucket)["Contents"][0]
    head = c.head("asdf", Bucket=bucket)
    assert entry["Key"] == "asdf" and entry["Size"] == 4 and entry["ETag"] == head["ETag"] and entry["StorageClass"] == "STANDARD", entry
    assert abs((entry["LastModified"] - head["LastModified"]).total_seconds()) < 1


@test(*BOTH)
def order_is_by_bytes(c, version):
    keys = ["a", "A", "b", "B", "a/", "a-", "a0", "ä", "z", "Z", "~", "!", "日", "\u00e9", "e\u0301"]
    assert listed(c, version, shared(c, "order", keys))[0] == sorted(keys, key=str.encode)


@test(*[(f"{prefix} {version}", version, prefix, wanted) for version in BOTH for prefix, wanted in [
    ("boo", ["boo/bar", "boo/baz/xyzzy"]), ("boo/", ["boo/bar", "boo/baz/xyzzy"]), ("boo/baz/", ["boo/baz/xyzzy"]), ("asdf", ["asdf"]), ("asdfx", []), ("", NAMES), ("zzz", []),
]])
def prefix(c, _, version, asked, wanted):
    assert listed(c, version, shared(c, "names", NAMES), Prefix=asked) == (wanted, [])


@test(*[(f"{title} {version}", version, more, keys, prefixes) for version in BOTH for title, more, keys, prefixes in [
    ("slash", {"Delimiter": "/"}, ["asdf"], ["boo/", "cquux/"]), ("slash below a prefix", {"Delimiter": "/", "Prefix": "boo/"}, ["boo/bar"], ["boo/baz/"]),
    ("slash below half a name", {"Delimiter": "/", "Prefix": "b"}, [], ["boo/"]), ("letter", {"Delimiter": "a"}, [], ["a", "boo/ba", "cquux/bla"]),
    ("letter at the end", {"Delimiter": "d"}, ["boo/bar", "boo/baz/xyzzy", "cquux/bla"], ["asd", "cquux/thud"]),
    ("of two letters", {"Delimiter": "oo"}, ["asdf", "cquux/bla", "cquux/thud"], ["boo"]), ("that is nowhere", {"Delimiter": "|"}, NAMES, []),
    ("empty", {"Delimiter": ""}, NAMES, []), ("prefix that is all", {"Delimiter": "/", "Prefix": "asdf"}, ["asdf"], []),
    ("prefix that is nowhere", {"Delimiter": "/", "Prefix": "nope/"}, [], []),
]])
def delimiter(c, _, version, more, keys, prefixes):
    if "a" == more.get("Delimiter"):
        prefixes = ["a", "boo/ba", "cquux/bla"]
        keys = ["cquux/thud"]
    assert listed(c, version, shared(c, "names", NAMES), **more) == (keys, prefixes)


@test(*[(f"{character!r} {version}", version, character) for version in BOTH for character in [" ", "%", "+", ".", "?", "&", "<", "ü", "\\", "\u00a0", "#", "'"]])
def odd_delimiters(c, _, version, character):
    keys = [f"b{character}ar", f"b{character}az", f"c{character}ab", "foo"]
    bucket = shared(c, f"odd {character}", keys)
    assert listed(c, version, bucket, Delimiter=character) == (["foo"], [f"b{character}", f"c{character}"])
    assert listed(c, version, bucket, Delimiter=character, Prefix=f"b{character}") == ([f"b{character}ar", f"b{character}az"], [])


FOLDERS = [f"d{n:02}/{m}" for n in range(12) for m in range(3)] + ["e", "f"]


@test(*[(f"{size} {version}", version, size) for version in BOTH for size in (1, 2, 3, 5, 100)])
def pages_lose_and_repeat_nothing(c, _, version, size):
    bucket = shared(c, "folders", FOLDERS)
    assert [key for keys, _ in pages(c, version, bucket, size) for key in keys] == sorted(FOLDERS)


@test(*[(f"{size} {version}", version, size) for version in BOTH for size in (1, 2, 5, 100)])
def pages_with_a_delimiter(c, _, version, size):
    bucket = shared(c, "folders", FOLDERS)
    found = pages(c, version, bucket, size, Delimiter="/")
    assert [key for keys, _ in found for key in keys] == ["e", "f"]
    assert [name for _, names in found for name in names] == [f"d{n:02}/" for n in range(12)]


@test(*BOTH)
def pages_below_a_prefix(c, version):
    found = pages(c, version, shared(c, "folders", FOLDERS), 2, Prefix="d05/")
    assert [key for keys, _ in found for key in keys] == ["d05/0", "d05/1", "d05/2"]


@test(*BOTH)
def a_page_that_just_fits_is_the_last(c, version):
    answer = getattr(c.s3, version)(Bucket=shared(c, "names", NAMES), MaxKeys=5)
    assert not answer["IsTruncated"] and len(keys_of(answer)) == 5


@test(*BOTH)
def zero_keys(c, version):
    answer = getattr(c.s3, version)(Bucket=shared(c, "names", NAMES), MaxKeys=0)
    assert keys_of(answer) == [] and not answer["IsTruncated"], answer


@test(*[(f"{value} {version}", version, value) for version in ("1", "2") for value in ("-1", "x", "1.5")])
def max_keys_that_is_none(c, _, version, value):
    answer = c.send("GET", shared(c, "names", NAMES), query={"max-keys": value, **({"list-type": "2"} if version == "2" else {})})
    assert (answer.status, answer.code) == (400, "InvalidArgument"), (answer.status, answer.code)


@test()
def max_keys_are_capped(c):
    answer = c.s3.list_objects_v2(Bucket=shared(c, "names", NAMES), MaxKeys=100_000)
    assert len(keys_of(answer)) == 5 and answer["MaxKeys"] in (1000, 100_000)


@test(("in", "boo/bar", NAMES[2:]), ("between", "bzz", NAMES[3:]), ("before all", "a", NAMES), ("behind all", "zzz", []))
def marker(c, _, after, wanted):
    assert keys_of(c.s3.list_objects(Bucket=shared(c, "names", NAMES), Marker=after)) == wanted


@test()
def marker_with_delimiter(c):
    answer = c.s3.list_objects(Bucket=shared(c, "names", NAMES), Delimiter="/", Marker="boo/")
    assert prefixes_of(answer) == ["cquux/"] and keys_of(answer) == [], answer


@test()
def next_marker_only_with_a_delimiter(c):
    bucket = shared(c, "folders", FOLDERS)
    assert c.s3.list_objects(Bucket=bucket, MaxKeys=1, Delimiter="/")["NextMarker"] == "d00/"
    answer = c.send("GET", bucket, query={"max-keys": "1"})
    assert b"<IsTruncated>true</IsTruncated>" in answer.body


@test(("in", "boo/bar", NAMES[2:]), ("between", "bzz", NAMES[3:]), ("before all", "a", NAMES), ("behind all", "zzz", []), ("empty", "", NAMES))
def start_after(c, _, after, wanted):
    answer = c.s3.list_objects_v2(Bucket=shared(c, "names", NAMES), StartAfter=after)
    assert keys_of(answer) == wanted and answer["KeyCount"] == len(wanted)


@test()
def a_token_wins_over_start_after(c):
    bucket = shared(c, "names", NAMES)
    token = c.s3.list_objects_v2(Bucket=bucket, MaxKeys=2)["NextContinuationToken"]
    assert keys_of(c.s3.list_objects_v2(Bucket=bucket, ContinuationToken=token, StartAfter="zzz")) == NAMES[2:]


@test()
def a_token_that_is_none(c):
    answer = c.send("GET", shared(c, "names", NAMES), query={"list-type": "2", "continuation-token": ""})
    assert (answer.status, answer.code) in [(400, "InvalidArgument"), (200, "")], (answer.status, answer.code)


@test()
def key_count_counts_prefixes(c):
    assert c.s3.list_objects_v2(Bucket=shared(c, "names", NAMES), Delimiter="/")["KeyCount"] == 3


@test()
def parameters_are_echoed(c):
    bucket = shared(c, "names", NAMES)
    answer = c.s3.list_objects_v2(Bucket=bucket, Prefix="boo/", Delimiter="/", StartAfter="a", MaxKeys=7)
    assert (answer["Name"], answer["Prefix"], answer["Delimiter"], answer["StartAfter"], answer["MaxKeys"]) == (bucket, "boo/", "/", "a", 7), answer


@test()
def owner_in_v1(c):
    assert c.s3.list_objects(Bucket=shared(c, "names", NAMES))["Contents"][0]["Owner"]["ID"]


@test()
def owner_in_v2_on_request(c):
    bucket = shared(c, "names", NAMES)
    assert "Owner" not in c.s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert c.s3.list_objects_v2(Bucket=bucket, FetchOwner=True)["Contents"][0]["Owner"]["ID"]


ODD = ["a b", "a+b", "a%b", "a&b", "a<b", "é/x", "日本/y", 'q"q', "a\tb", "a*b"]


@test("1", "2")
def encoding_type_url(c, version):
    more = {"encoding-type": "url", **({"list-type": "2"} if version == "2" else {})}
    answer = c.send("GET", shared(c, "odd keys", ODD), query=more)
    assert b"<EncodingType>url</EncodingType>" in answer.body, answer.body[:300]
    for key in ODD:
        forms = {quote(key, safe=safe) for safe in ("/", "", "/*", "*")} | {quote(key, safe="/").replace("%20", "+")}
        assert any(f"<Key>{form}</Key>".encode() in answer.body for form in forms), (key, answer.body)


@test("1", "2")
def encoding_type_that_is_none(c, version):
    answer = c.send("GET", shared(c, "odd keys", ODD), query={"encoding-type": "base64", **({"list-type": "2"} if version == "2" else {})})
    assert (answer.status, answer.code) == (400, "InvalidArgument"), (answer.status, answer.code)


@test(*BOTH)
def odd_keys(c, version):
    assert listed(c, version, shared(c, "odd keys", ODD))[0] == sorted(ODD, key=str.encode)


@test()
def no_encoding_is_xml(c):
    answer = c.send("GET", shared(c, "odd keys", ODD), query={"list-type": "2"})
    assert b"<Key>a&lt;b</Key>" in answer.body and b"<Key>a&amp;b</Key>" in answer.body and "<Key>é/x</Key>".encode() in answer.body


@test()
def a_thousand_is_a_page(c):
    from concurrent.futures import ThreadPoolExecutor

    bucket = c.new_bucket()
    keys = [f"k{n:05}" for n in range(1100)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda key: c.s3.put_object(Bucket=bucket, Key=key, Body=b""), keys))
    first = c.s3.list_objects_v2(Bucket=bucket)
    assert first["IsTruncated"] and len(first["Contents"]) == 1000
    second = c.s3.list_objects_v2(Bucket=bucket, ContinuationToken=first["NextContinuationToken"])
    assert keys_of(first) + keys_of(second) == keys
    c.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys[:1000]], "Quiet": True})
    assert keys_of(c.s3.list_objects_v2(Bucket=bucket)) == keys[1000:]


@test()
def a_listing_while_keys_go_away(c):
    bucket = c.filled([f"k{n:03}" for n in range(40)])
    first = c.s3.list_objects_v2(Bucket=bucket, MaxKeys=10)
    for n in range(40):
        if n % 2:
            c.s3.delete_object(Bucket=bucket, Key=f"k{n:03}")
    rest = c.s3.list_objects_v2(Bucket=bucket, ContinuationToken=first["NextContinuationToken"])
    assert keys_of(rest) == [f"k{n:03}" for n in range(10, 40, 2)]


@test()
def versions_of_an_unversioned_bucket(c):
    answer = c.send("GET", shared(c, "names", NAMES), query="versions=")
    assert answer.status in (200, 501), (answer.status, answer.code)
    if answer.status == 200:
        assert answer.body.count(b"<VersionId>null</VersionId>") == 5, answer.body


@test()
def no_such_bucket_v2(c):
    expect(("NoSuchBucket", 404), c.s3.list_objects_v2, Bucket="no-such-bucket-here", Prefix="x", Delimiter="/")
