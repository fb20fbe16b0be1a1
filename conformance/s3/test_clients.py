"""Smoke tests with programs people use: the aws CLI, mc, rclone, DuckDB, Polars. Those that are missing are SKIPPED."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from conformance.harness.report import Skip
from conformance.s3.context import test

BODY = os.urandom(9 << 20)
ROWS = "id,name\n" + "".join(f"{n},name {n}\n" for n in range(1000))
PARQUET = Path(__file__).resolve().parents[1] / "select" / "data" / "row_groups.parquet"


def program(name):
    """The path of a program, or a loud skip."""
    found = shutil.which(name)
    if not found:
        raise Skip(f"{name} is not installed")
    return found


def environment(c, home, **more):
    return {
        "PATH": os.environ["PATH"], "HOME": home, "AWS_ACCESS_KEY_ID": c.server.access_key, "AWS_SECRET_ACCESS_KEY": c.server.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PAGER": "", **more,
    }


def run(command, env, **more):
    done = subprocess.run(command, env=env, capture_output=True, timeout=120, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))[:200]}: {done.stderr.decode()[-400:]}{done.stdout.decode()[-200:]}"
    return done.stdout.decode()


@test()
def aws_cli_copies_lists_and_removes(c):
    aws = [program("aws"), "--endpoint-url", c.server.endpoint]
    bucket = c.server.bucket_name()
    with tempfile.TemporaryDirectory() as home:
        env = environment(c, home)
        big, small, back = Path(home, "big"), Path(home, "small.txt"), Path(home, "back")
        big.write_bytes(BODY)
        small.write_text("hello")
        run([*aws, "s3", "mb", f"s3://{bucket}"], env)
        c.buckets.append(bucket)
        run([*aws, "s3", "cp", big, f"s3://{bucket}/d/big"], env)
        run([*aws, "s3", "cp", small, f"s3://{bucket}/small.txt"], env)
        run([*aws, "s3", "cp", f"s3://{bucket}/d/big", back], env)
        assert back.read_bytes() == BODY and c.head("d/big", Bucket=bucket)["ETag"].endswith('-2"')
        listed = run([*aws, "s3", "ls", f"s3://{bucket}/"], env)
        assert "PRE d/" in listed and "small.txt" in listed, listed
        run([*aws, "s3", "mv", f"s3://{bucket}/small.txt", f"s3://{bucket}/moved.txt"], env)
        Path(home, "tree", "sub").mkdir(parents=True)
        for n in range(5):
            Path(home, "tree", "sub", f"{n}.txt").write_text(str(n))
        run([*aws, "s3", "sync", Path(home, "tree"), f"s3://{bucket}/tree"], env)
        run([*aws, "s3", "sync", f"s3://{bucket}/tree", Path(home, "copy")], env)
        assert sorted(path.name for path in Path(home, "copy", "sub").iterdir()) == [f"{n}.txt" for n in range(5)]
        run([*aws, "s3", "rb", "--force", f"s3://{bucket}"], env)


@test()
def aws_cli_selects(c):
    aws = [program("aws"), "--endpoint-url", c.server.endpoint]
    key = c.put(ROWS.encode())
    with tempfile.TemporaryDirectory() as home:
        out = Path(home, "out")
        run([*aws, "s3api", "select-object-content", "--bucket", c.bucket, "--key", key, "--expression-type", "SQL",
             "--expression", "SELECT COUNT(*) FROM S3Object s WHERE s.name LIKE '%7'", "--input-serialization", '{"CSV": {"FileHeaderInfo": "USE"}}',
             "--output-serialization", '{"CSV": {}}', out], environment(c, home))
        assert out.read_text() == "100\n", out.read_text()


@test()
def aws_cli_signs_urls(c):
    key = c.put(b"body")
    with tempfile.TemporaryDirectory() as home:
        # Left to itself it signs URLs with signature version 2.
        Path(home, "config").write_text("[default]\ns3 =\n  signature_version = s3v4\n  addressing_style = path\n")
        env = environment(c, home, AWS_CONFIG_FILE=str(Path(home, "config")))
        url = run([program("aws"), "--endpoint-url", c.server.endpoint, "s3", "presign", f"s3://{c.bucket}/{key}"], env).strip()
        answer = c.server.plain("GET", "/" + url.split("/", 3)[3])
        assert (answer.status, answer.body) == (200, b"body"), (answer.status, answer.code)


@test()
def mc_copies_lists_and_removes(c):
    mc = program("mc")
    bucket = c.server.bucket_name()
    with tempfile.TemporaryDirectory() as home:
        env = environment(c, home)
        base = [mc, "--config-dir", str(Path(home, ".mc")), "--json"]
        run([*base, "alias", "set", "node", c.server.endpoint, c.server.access_key, c.server.secret_key, "--api", "S3v4"], env)
        run([*base, "mb", f"node/{bucket}"], env)
        c.buckets.append(bucket)
        Path(home, "big").write_bytes(BODY)
        run([*base, "cp", str(Path(home, "big")), f"node/{bucket}/d/big"], env)
        run([*base, "cp", f"node/{bucket}/d/big", str(Path(home, "back"))], env)
        assert Path(home, "back").read_bytes() == BODY
        listed = run([*base, "ls", "--recursive", f"node/{bucket}"], env)
        assert json.loads(listed.splitlines()[0])["key"] == "d/big", listed
        assert json.loads(run([*base, "stat", f"node/{bucket}/d/big"], env).splitlines()[0])["size"] == len(BODY)
        run([*base, "cp", f"node/{bucket}/d/big", f"node/{bucket}/copy"], env)
        run([*base, "rm", "--recursive", "--force", f"node/{bucket}"], env)
        run([*base, "rb", f"node/{bucket}"], env)


@test()
def mc_selects(c):
    mc = program("mc")
    key = c.put(ROWS.encode(), c.key() + ".csv")
    with tempfile.TemporaryDirectory() as home:
        env = environment(c, home)
        base = [mc, "--config-dir", str(Path(home, ".mc"))]
        run([*base, "alias", "set", "node", c.server.endpoint, c.server.access_key, c.server.secret_key, "--api", "S3v4"], env)
        out = run([*base, "sql", "--csv-input", "fh=USE,rd=\n,fd=,", "--query", "select count(*) from S3Object", f"node/{c.bucket}/{key}"], env)
        assert out.strip().splitlines()[-1] == "1000", out


@test()
def rclone_copies_checks_and_purges(c):
    rclone = program("rclone")
    bucket = c.server.bucket_name()
    with tempfile.TemporaryDirectory() as home:
        env = environment(c, home, RCLONE_CONFIG_NODE_TYPE="s3", RCLONE_CONFIG_NODE_PROVIDER="Other", RCLONE_CONFIG_NODE_ENDPOINT=c.server.endpoint,
                          RCLONE_CONFIG_NODE_ACCESS_KEY_ID=c.server.access_key, RCLONE_CONFIG_NODE_SECRET_ACCESS_KEY=c.server.secret_key, RCLONE_CONFIG_NODE_REGION="us-east-1")
        tree = Path(home, "tree")
        (tree / "sub dir").mkdir(parents=True)
        (tree / "big").write_bytes(BODY)
        for n in range(5):
            (tree / "sub dir" / f"ü {n}.txt").write_text(str(n))
        run([rclone, "mkdir", f"node:{bucket}"], env)
        c.buckets.append(bucket)
        run([rclone, "copy", "--s3-upload-cutoff", "5M", "--s3-chunk-size", "5M", tree, f"node:{bucket}/tree"], env)
        run([rclone, "check", "--download", tree, f"node:{bucket}/tree"], env)
        listed = json.loads(run([rclone, "lsjson", "-R", "--files-only", f"node:{bucket}"], env))
        assert sorted(entry["Path"] for entry in listed) == ["tree/big"] + [f"tree/sub dir/ü {n}.txt" for n in range(5)], listed
        run([rclone, "sync", f"node:{bucket}/tree", f"node:{bucket}/copy"], env)
        assert run([rclone, "cat", f"node:{bucket}/copy/sub dir/ü 3.txt"], env) == "3"
        run([rclone, "purge", f"node:{bucket}/copy"], env)
        run([rclone, "delete", f"node:{bucket}"], env)
        run([rclone, "rmdir", f"node:{bucket}"], env)


def python(name):
    """A Python with this package: this one, or that of PUSHDOWNDB_CLIENTS_PYTHON."""
    if importlib.util.find_spec(name):
        return sys.executable
    other = os.environ.get("PUSHDOWNDB_CLIENTS_PYTHON")
    if other and subprocess.run([other, "-c", f"import {name}"], capture_output=True).returncode == 0:
        return other
    raise Skip(f"the Python package {name} is not installed")


@test()
def polars_scans(c):
    executable = python("polars")
    c.put(ROWS.encode(), "polars/table.csv")
    c.put(PARQUET.read_bytes(), "polars/table.parquet")
    script = """
import polars as pl, sys
endpoint, bucket, access, secret = sys.argv[1:]
options = {"aws_access_key_id": access, "aws_secret_access_key": secret, "aws_region": "us-east-1", "aws_endpoint_url": endpoint, "aws_allow_http": "true"}
rows = pl.scan_csv(f"s3://{bucket}/polars/table.csv", storage_options=options).filter(pl.col("id") >= 990).select("name").collect()
print(rows.height)
print(pl.scan_parquet(f"s3://{bucket}/polars/*.parquet", storage_options=options).filter(pl.col("k") == "key 3").select(pl.col("id").sum()).collect().item())
"""
    with tempfile.TemporaryDirectory() as home:
        out = run([executable, "-c", script, c.server.endpoint, c.bucket, c.server.access_key, c.server.secret_key], environment(c, home))
    assert out.split() == ["10", str(sum(range(3, 1000, 7)))], out


@test()
def duckdb_reads(c):
    executable = python("duckdb")
    c.put(ROWS.encode(), "duckdb/table.csv")
    c.put(PARQUET.read_bytes(), "duckdb/table.parquet")
    script = """
import duckdb, glob, os, sys
netloc, bucket, access, secret = sys.argv[1:]
db = duckdb.connect()
# A query of more than two seconds would draw its bar between the answers.
db.execute("SET enable_progress_bar = false")
try:
    # The extension as a Python package, of the same version as duckdb.
    import duckdb_extension_httpfs
    folder = os.path.dirname(duckdb_extension_httpfs.__file__)
    db.execute(f"LOAD '{glob.glob(folder + '/**/httpfs.duckdb_extension', recursive=True)[0]}'")
except ImportError:
    try:
        db.execute("INSTALL httpfs; LOAD httpfs")
    except duckdb.Error as error:
        print("NO HTTPFS", error)
        sys.exit()
db.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{access}', SECRET '{secret}', REGION 'us-east-1', ENDPOINT '{netloc}', URL_STYLE 'path', USE_SSL false)")
print(db.execute(f"SELECT count(*) FROM read_csv('s3://{bucket}/duckdb/table.csv') WHERE id >= 990").fetchone()[0])
print(db.execute(f"SELECT sum(id) FROM read_parquet('s3://{bucket}/duckdb/*.parquet') WHERE k = 'key 3'").fetchone()[0])
db.execute(f"COPY (SELECT 42 AS x) TO 's3://{bucket}/duckdb/out.parquet' (FORMAT parquet)")
print(db.execute(f"SELECT x FROM 's3://{bucket}/duckdb/out.parquet'").fetchone()[0])
"""
    with tempfile.TemporaryDirectory() as home:
        out = run([executable, "-c", script, c.server.netloc, c.bucket, c.server.access_key, c.server.secret_key], environment(c, home))
    if out.startswith("NO HTTPFS"):
        raise Skip(f"DuckDB's httpfs extension cannot be had: {out.strip()[10:160]}")
    assert out.split() == ["10", str(sum(range(3, 1000, 7))), "42"], out


@test()
def pyarrow_reads_and_writes(c):
    executable = python("pyarrow")
    c.put(ROWS.encode(), "pyarrow/table.csv")
    script = """
import sys, pyarrow as pa, pyarrow.csv, pyarrow.fs, pyarrow.parquet as pq
endpoint, bucket, access, secret = sys.argv[1:]
fs = pa.fs.S3FileSystem(access_key=access, secret_key=secret, endpoint_override=endpoint, region="us-east-1")
with fs.open_input_stream(f"{bucket}/pyarrow/table.csv") as source:
    table = pa.csv.read_csv(source)
print(table.num_rows)
pq.write_table(table, f"{bucket}/pyarrow/table.parquet", filesystem=fs)
print(pq.read_table(f"{bucket}/pyarrow/table.parquet", filesystem=fs).num_rows)
print(len(fs.get_file_info(pa.fs.FileSelector(f"{bucket}/pyarrow"))))
"""
    with tempfile.TemporaryDirectory() as home:
        out = run([executable, "-c", script, c.server.endpoint, c.bucket, c.server.access_key, c.server.secret_key], environment(c, home))
    assert out.split() == ["1000", "1000", "2"], out


@test()
def aws_sdk_for_rust(c):
    built = [os.environ.get("PUSHDOWNDB_RUST_CLIENT", ""), *Path(__file__).resolve().parents[1].glob("rust/target/*/conformance-rust")]
    found = next((path for path in map(str, built) if path and os.access(path, os.X_OK)), None)
    if not found:
        raise Skip("conformance/rust is not built: cargo build --manifest-path conformance/rust/Cargo.toml")
    with tempfile.TemporaryDirectory() as home:
        out = run([found, c.server.endpoint, c.bucket, c.server.access_key, c.server.secret_key], environment(c, home))
    assert out == "ok\n", out
