package customsink

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockstep-stream/lockstep/framework"
)

// snippet:start publish

// publish stores data as a new file at path, whole or not at all. An error that
// matches fs.ErrExist says that another was first, and stays. (os.Rename would
// replace it without a word.) With any other error the file may be there if
// linked is true, and is not and never will be if linked is false.
func publish(path string, data []byte) (linked bool, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return false, err
	}
	defer os.Remove(f.Name()) // its other name, once linked, stays
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return true, err
	}
	return true, syncDir(filepath.Dir(path))
}

// snippet:end

// syncDir makes the names in dir survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// makeDir makes dir, which lies below root, and syncs all that is between, also
// what another process has made a moment ago and may not have synced yet.
func makeDir(root, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for dir != root {
		dir = filepath.Dir(dir)
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// topicDir escapes the names, so that different ones never share a directory.
func topicDir(root, pipeline, topic string) string {
	return filepath.Join(root, "p-"+url.PathEscape(pipeline), "t-"+url.PathEscape(topic))
}

func logFile(dir string, n int) string { return filepath.Join(dir, fmt.Sprintf("%012d", n)) }

// logEnd returns the number of the next file.
func logEnd(dir string) (int, error) {
	files, err := os.ReadDir(dir) // sorted; what is not a number comes first
	if err != nil || len(files) == 0 {
		return 0, err
	}
	newest := files[len(files)-1].Name()
	if strings.HasPrefix(newest, ".") {
		return 0, nil // nothing but .new-…
	}
	last, err := strconv.Atoi(newest)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", framework.ErrCorrupt, filepath.Join(dir, newest), err)
	}
	return last + 1, nil
}

// readLog calls visit for every entry from number n on. A file that is missing
// or cannot be understood was damaged from outside: nobody may go on from there.
func readLog(dir string, n int, visit func(entry)) error {
	end, err := logEnd(dir)
	for ; err == nil && n < end; n++ {
		var data []byte
		if data, err = os.ReadFile(logFile(dir, n)); err == nil {
			err = decode(data, visit)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", framework.ErrCorrupt, logFile(dir, n), err)
		}
	}
	return err
}
