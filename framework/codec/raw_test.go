package codec

import (
	"bytes"
	"testing"
)

func TestStringKeepsEveryByte(t *testing.T) {
	c := String()
	for _, want := range []string{"", "a", "Zoë", "\xff\x00\xc3"} {
		data, err := c.Append([]byte("p"), want)
		if err != nil || string(data) != "p"+want {
			t.Errorf("Append(%q) = %q, %v", want, data, err)
		}
		var got string
		if err := c.Decode(data[1:], &got); err != nil || got != want {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
	}
}

func TestBytesTellATombstoneFromNoBytes(t *testing.T) {
	var v []byte
	if err := Bytes().Decode(nil, &v); err != nil || v != nil {
		t.Errorf("tombstone: %#v, %v, want nil", v, err)
	}
	if err := Bytes().Decode([]byte{}, &v); err != nil || v == nil {
		t.Errorf("no bytes: %#v, %v, want an empty slice", v, err)
	}
}

func TestBytesDoNotReachIntoTheNextRecord(t *testing.T) {
	block := []byte("onetwo")
	var first []byte
	if err := Bytes().Decode(block[:3], &first); err != nil {
		t.Fatal(err)
	}
	first = append(first, "XXX"...)
	if string(block) != "onetwo" || string(first) != "oneXXX" {
		t.Errorf("block %q, first %q", block, first)
	}
	out, err := Bytes().Append([]byte("p"), block)
	if err != nil || !bytes.Equal(out, []byte("ponetwo")) {
		t.Errorf("Append = %q, %v", out, err)
	}
}
