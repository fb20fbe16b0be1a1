"""The S3 Select suite: cases as tables, a runner, checks of the stream's bytes."""
