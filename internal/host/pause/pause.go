// Package pause owns the program that holds a Pod's namespaces open. It only
// writes the program out; packing and storing it are its callers' business.
package pause

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The program that holds a Pod's namespaces open must end promptly on SIGTERM
// or SIGINT, leave no zombies when it is process 1 of a shared process
// namespace, and otherwise do nothing. That is four system calls, so it is
// written out here as machine code rather than carried as a compiled file of a
// megabyte in every node's page cache, in the binary, or in the repository:
//
//	rt_sigaction(SIGCHLD, SIG_IGN)        children are reaped by the kernel
//	rt_sigprocmask(SIG_BLOCK, {TERM,INT}) blocked signals stay pending, even for
//	                                      process 1, for which the kernel would
//	                                      drop them otherwise
//	while rt_sigtimedwait({TERM,INT}) < 0 {} (EINTR)
//	exit_group(0)
//
// The two structures it points to, a sigaction{SIG_IGN} and a signal set, stand
// directly behind the code.
var programs = map[string]struct {
	machine uint16 // ELF's number for the processor
	code    []byte
}{
	"amd64": {machine: 62, code: []byte{
		0xb8, 13, 0, 0, 0, // mov  $13,%eax        rt_sigaction
		0xbf, 17, 0, 0, 0, // mov  $17,%edi        SIGCHLD
		0x48, 0x8d, 0x35, 0x3f, 0, 0, 0, // lea  action(%rip),%rsi
		0x31, 0xd2, // xor  %edx,%edx
		0x41, 0xba, 8, 0, 0, 0, // mov  $8,%r10d        size of a signal set
		0x0f, 0x05, // syscall
		0xb8, 14, 0, 0, 0, // mov  $14,%eax        rt_sigprocmask
		0x31, 0xff, // xor  %edi,%edi       SIG_BLOCK
		0x48, 0x8d, 0x35, 0x47, 0, 0, 0, // lea  set(%rip),%rsi
		0x31, 0xd2, // xor  %edx,%edx
		0x0f, 0x05, // syscall
		0xb8, 128, 0, 0, 0, // wait: mov $128,%eax rt_sigtimedwait
		0x48, 0x8d, 0x3d, 0x37, 0, 0, 0, // lea  set(%rip),%rdi
		0x31, 0xf6, // xor  %esi,%esi
		0x31, 0xd2, // xor  %edx,%edx
		0x0f, 0x05, // syscall
		0x85, 0xc0, // test %eax,%eax
		0x78, 0xea, // js   wait
		0xb8, 231, 0, 0, 0, // mov  $231,%eax       exit_group
		0x31, 0xff, // xor  %edi,%edi
		0x0f, 0x05, // syscall
		0x0f, 0x1f, 0x40, 0, // nop, to align what follows
	}},
	"arm64": {machine: 183, code: words(
		0xd28010c8, // mov  x8, #134            rt_sigaction
		0xd2800220, // mov  x0, #17             SIGCHLD
		0x10000241, // adr  x1, action
		0xd2800002, // mov  x2, #0
		0xd2800103, // mov  x3, #8              size of a signal set
		0xd4000001, // svc  #0
		0xd28010e8, // mov  x8, #135            rt_sigprocmask
		0xd2800000, // mov  x0, #0              SIG_BLOCK
		0x10000281, // adr  x1, set
		0xd2800002, // mov  x2, #0
		0xd4000001, // svc  #0
		0xd2801128, // wait: mov x8, #137       rt_sigtimedwait
		0x10000200, // adr  x0, set
		0xd2800001, // mov  x1, #0
		0xd2800002, // mov  x2, #0
		0xd4000001, // svc  #0
		0xb7ffff60, // tbnz x0, #63, wait
		0xd2800bc8, // mov  x8, #94             exit_group
		0xd2800000, // mov  x0, #0
		0xd4000001, // svc  #0
	)},
}

func words(instructions ...uint32) []byte {
	var code []byte
	for _, instruction := range instructions {
		code = binary.LittleEndian.AppendUint32(code, instruction)
	}
	return code
}

// Program is the sandbox's program for a processor, by Go's name for it: a
// static executable of one read-only segment. It is an error where nobody has
// written the code for the processor.
func Program(arch string) ([]byte, error) {
	program, known := programs[arch]
	if !known {
		return nil, fmt.Errorf("building the sandbox program: no code for processor %q", arch)
	}
	body := append([]byte{}, program.code...)
	body = append(body, 1)                                    // sigaction: SIG_IGN
	body = append(body, make([]byte, 31)...)                  // no flags, no restorer, empty mask
	body = binary.LittleEndian.AppendUint64(body, 1<<14|1<<1) // SIGTERM is 15, SIGINT 2

	const headers, base = 64 + 56, 0x400000
	size := uint64(headers + len(body))
	var out bytes.Buffer
	out.Write([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	fields := []any{
		uint16(2), program.machine, uint32(1), // executable, processor, version
		uint64(base + headers), uint64(64), uint64(0), // entry, program headers, no section headers
		uint32(0), uint16(64), uint16(56), uint16(1), uint16(64), uint16(0), uint16(0),
		uint32(1), uint32(5), // PT_LOAD, readable and executable
		uint64(0), uint64(base), uint64(base), size, size, uint64(0x10000),
	}
	for _, field := range fields {
		if err := binary.Write(&out, binary.LittleEndian, field); err != nil {
			return nil, fmt.Errorf("building the sandbox program: %w", err)
		}
	}
	out.Write(body)
	return out.Bytes(), nil
}
