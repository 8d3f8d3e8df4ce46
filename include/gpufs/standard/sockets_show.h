/* After it: the names are free again. */
#pragma GCC system_header

#undef socket
#undef socketpair
#undef bind
#undef listen
#undef accept
#undef accept4
#undef connect
#undef shutdown
#undef send
#undef sendto
#undef sendmsg
#undef sendmmsg
#undef recv
#undef recvfrom
#undef recvmsg
#undef recvmmsg
#undef setsockopt
#undef getsockopt
#undef getsockname
#undef getpeername
#undef sockatmark
#undef isfdtype
