//! Everyday operations through the AWS SDK for Rust: `conformance-rust ENDPOINT BUCKET ACCESS_KEY SECRET_KEY`.
//!
//! Prints `ok` if the server did all of them right.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_s3::config::Region;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart, CsvInput, CsvOutput, Delete, ExpressionType,
    FileHeaderInfo, InputSerialization, ObjectIdentifier, OutputSerialization, SelectObjectContentEventStream,
};
use aws_sdk_s3::{Client, Config};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, bucket, access, secret]: [String; 4] =
        arguments.try_into().map_err(|_| "four arguments are needed")?;
    let config = Config::builder()
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(access, secret, None, None, "arguments"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .force_path_style(true)
        .build();
    let s3 = Client::from_conf(config);
    objects(&s3, &bucket).await?;
    multipart(&s3, &bucket).await?;
    errors(&s3, &bucket).await?;
    select(&s3, &bucket).await?;
    println!("ok");
    Ok(())
}

async fn objects(s3: &Client, bucket: &str) -> Result<()> {
    for algorithm in
        [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::Crc32C, ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Sha256]
    {
        let put = s3.put_object().bucket(bucket).key("rust/a b").metadata("m", "1").checksum_algorithm(algorithm);
        put.body(ByteStream::from_static(b"hello")).send().await?;
        let got = s3.get_object().bucket(bucket).key("rust/a b").send().await?;
        assert_eq!(got.metadata().and_then(|m| m.get("m")).map(String::as_str), Some("1"));
        assert_eq!(got.body.collect().await?.to_vec(), b"hello");
    }
    let part = s3.get_object().bucket(bucket).key("rust/a b").range("bytes=1-3").send().await?;
    assert_eq!(part.body.collect().await?.to_vec(), b"ell");
    s3.copy_object().bucket(bucket).key("rust/copy").copy_source(format!("{bucket}/rust/a%20b")).send().await?;
    let listed = s3.list_objects_v2().bucket(bucket).prefix("rust/").send().await?;
    assert_eq!(
        listed.contents().iter().filter_map(|object| object.key()).collect::<Vec<_>>(),
        ["rust/a b", "rust/copy"]
    );
    let url = s3
        .get_object()
        .bucket(bucket)
        .key("rust/copy")
        .presigned(PresigningConfig::expires_in(Duration::from_secs(60))?)
        .await?;
    assert!(url.uri().contains("X-Amz-Signature="));
    let keys = ["rust/a b", "rust/copy"].map(|key| ObjectIdentifier::builder().key(key).build().expect("a key"));
    let delete = Delete::builder().set_objects(Some(keys.to_vec())).build()?;
    let gone = s3.delete_objects().bucket(bucket).delete(delete).send().await?;
    assert_eq!((gone.deleted().len(), gone.errors().len()), (2, 0));
    Ok(())
}

async fn multipart(s3: &Client, bucket: &str) -> Result<()> {
    let key = "rust/parts";
    let bodies = [vec![b'a'; 5 << 20], b"tail".to_vec()];
    let upload = s3.create_multipart_upload().bucket(bucket).key(key).send().await?;
    let id = upload.upload_id().expect("an upload id");
    let mut parts = Vec::new();
    for (number, body) in (1..).zip(&bodies) {
        let part = s3.upload_part().bucket(bucket).key(key).upload_id(id).part_number(number);
        let part = part.body(ByteStream::from(body.clone())).send().await?;
        let done =
            CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).set_checksum_crc32(part.checksum_crc32);
        parts.push(done.build());
    }
    let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
    s3.complete_multipart_upload().bucket(bucket).key(key).upload_id(id).multipart_upload(parts).send().await?;
    let got = s3.get_object().bucket(bucket).key(key).send().await?;
    assert_eq!(got.body.collect().await?.to_vec(), bodies.concat());
    s3.delete_object().bucket(bucket).key(key).send().await?;
    Ok(())
}

async fn errors(s3: &Client, bucket: &str) -> Result<()> {
    let missing = s3.get_object().bucket(bucket).key("rust/none").send().await.expect_err("there is no such key");
    assert!(missing.into_service_error().is_no_such_key());
    let missing = s3.head_object().bucket(bucket).key("rust/none").send().await.expect_err("there is no such key");
    assert!(missing.into_service_error().is_not_found());
    Ok(())
}

async fn select(s3: &Client, bucket: &str) -> Result<()> {
    let rows: String = (0..50_000).map(|n| format!("{n},text {n}\n")).collect();
    s3.put_object().bucket(bucket).key("rust/t.csv").body(ByteStream::from(rows.into_bytes())).send().await?;
    let csv = CsvInput::builder().file_header_info(FileHeaderInfo::None).build();
    let asked = s3.select_object_content().bucket(bucket).key("rust/t.csv").expression_type(ExpressionType::Sql);
    let mut answer = asked
        .expression("SELECT s._1 FROM S3Object s WHERE s._2 LIKE '%99'")
        .input_serialization(InputSerialization::builder().csv(csv).build())
        .output_serialization(OutputSerialization::builder().csv(CsvOutput::builder().build()).build())
        .send()
        .await?;
    let (mut bytes, mut ended) = (Vec::<u8>::new(), false);
    while let Some(event) = answer.payload.recv().await? {
        match event {
            SelectObjectContentEventStream::Records(records) => {
                bytes.extend(records.payload().expect("a payload").as_ref())
            }
            SelectObjectContentEventStream::End(_) => ended = true,
            _ => {}
        }
    }
    assert!(ended && bytes.split(|byte| *byte == b'\n').count() == 501);
    s3.delete_object().bucket(bucket).key("rust/t.csv").send().await?;
    Ok(())
}
