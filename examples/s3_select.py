#!/usr/bin/env python3
"""S3 Select with boto3: rows of one object, filtered by the storage node.

    pushdowndb serve --store DIR
    AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… examples/s3_select.py http://127.0.0.1:9000 BUCKET KEY.csv "SELECT …"
"""

import sys

import boto3

endpoint, bucket, key, sql = sys.argv[1:]
s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
answer = s3.select_object_content(
    Bucket=bucket, Key=key, Expression=sql, ExpressionType="SQL",
    InputSerialization={"CSV": {"FileHeaderInfo": "USE"}}, OutputSerialization={"CSV": {}},
)
for event in answer["Payload"]:
    if "Records" in event:
        sys.stdout.write(event["Records"]["Payload"].decode())
    elif "Stats" in event:
        stats = event["Stats"]["Details"]
        print(f"{stats['BytesScanned']} bytes scanned, {stats['BytesReturned']} returned", file=sys.stderr)
