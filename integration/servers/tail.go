package servers

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// The end of a log that an error carries.
const (
	tailLines = 60
	tailBytes = 64 << 10
)

// tailFile returns the last lines of the file at path, or why it cannot.
func tailFile(path string) string {
	text, err := readEnd(path, tailBytes)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return lastLines(text, tailLines)
}

func readEnd(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-limit)
	return io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
}

// lastLines returns the last n lines of text, without the final line end.
func lastLines(text []byte, n int) string {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
