package sqlite

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"

	"runnel/tasks"
)

// cursors encrypt the number of a task, because the tasks of all owners are numbered together, and no owner
// may learn how many the others have. A cursor ends with the process ("Don't persist cursors across
// sessions", server/utilities/pagination).
type cursors struct{ block cipher.Block }

func newCursors() cursors {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return cursors{block}
}

// seal returns the cursor of a number. The other half of the block is zero, which shows up a forged cursor.
func (c cursors) seal(number int64) string {
	b := make([]byte, aes.BlockSize)
	binary.BigEndian.PutUint64(b[8:], uint64(number))
	c.block.Encrypt(b, b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// open returns the number of a cursor, or ErrCursor.
func (c cursors) open(cursor string) (int64, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != aes.BlockSize {
		return 0, tasks.ErrCursor
	}
	c.block.Decrypt(b, b)
	if binary.BigEndian.Uint64(b) != 0 {
		return 0, tasks.ErrCursor
	}
	return int64(binary.BigEndian.Uint64(b[8:])), nil
}
