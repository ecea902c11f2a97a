package cassandra

var testLimits = blobLimits{chunk: maxChunkBytes, lone: maxChunkBytes / 2, total: 8 << 20}
