package proxy

// Request is one message of a client.
type Request struct {
	// Kind is the protocol's own name: "EXECUTE", "QUERY", "BATCH" and so on for
	// CQL, "Fetch", "OffsetCommit" and so on for Kafka, "" for [TCP].
	Kind string
	// Statement is the CQL of a PREPARE, QUERY or EXECUTE, and the first of a
	// BATCH. It is "" for one that was prepared before the proxy was there.
	Statement string
}

// Action is what happens to a request and its answer. The zero Action is [Pass].
type Action struct {
	fate    fate
	forged  *Answer
	when    <-chan struct{} // of later
	arrived chan struct{}   // closed when the server has answered it
}

type fate uint8

const (
	pass fate = iota
	dropRequest
	dropAnswer
	cutBefore
	cutAfter
	stall
	forge
	replace
	later
)

// The actions that need nothing more.
var (
	// Pass leaves everything as it is.
	Pass = Action{fate: pass}
	// DropRequest loses the request: the server never sees it, and the client
	// hears nothing.
	DropRequest = Action{fate: dropRequest}
	// DropAnswer loses the answer: the server has done its work, and the client
	// hears nothing. A proxy of TCP does not know which answer that is, and passes.
	DropAnswer = Action{fate: dropAnswer}
	// CutBefore breaks the connection instead of passing the request on.
	CutBefore = Action{fate: cutBefore}
	// CutAfter breaks the connection when the server has answered, and the answer
	// is lost. For TCP see [DropAnswer].
	CutAfter = Action{fate: cutAfter}
	// Stall is [Proxy.Stall], with this request the first that is held back.
	Stall = Action{fate: stall}
)

// Forge has a answered in the server's place, which never sees the request.
func Forge(a Answer) Action { return Action{fate: forge, forged: &a} }

// Replace passes the request on, and a in place of the server's answer to it.
func Replace(a Answer) Action { return Action{fate: replace, forged: &a} }

// Later has a answered at once in the server's place, which sees the request when
// the channel is closed; what it says then is lost, and arrived is closed. Use the
// action once.
func Later(when <-chan struct{}, a Answer) (action Action, arrived <-chan struct{}) {
	action = Action{fate: later, forged: &a, when: when, arrived: make(chan struct{})}
	return action, action.arrived
}

// Answer is one that the server has not given. Only a proxy of CQL can send it,
// see [Timeout] and the functions beside it.
type Answer struct {
	opcode byte
	body   []byte
}
