/* endian(3), on a GPU, whose bytes are in little-endian order. */
#ifndef GPUFS_LIBC_ENDIAN_H
#define GPUFS_LIBC_ENDIAN_H
#include <byteswap.h>
#define __LITTLE_ENDIAN 1234
#define __BIG_ENDIAN 4321
#define __BYTE_ORDER __LITTLE_ENDIAN
#define LITTLE_ENDIAN __LITTLE_ENDIAN
#define BIG_ENDIAN __BIG_ENDIAN
#define BYTE_ORDER __BYTE_ORDER
#define htobe16(value) bswap_16(value)
#define htobe32(value) bswap_32(value)
#define htobe64(value) bswap_64(value)
#define be16toh(value) bswap_16(value)
#define be32toh(value) bswap_32(value)
#define be64toh(value) bswap_64(value)
#define htole16(value) ((__UINT16_TYPE__)(value))
#define htole32(value) ((__UINT32_TYPE__)(value))
#define htole64(value) ((__UINT64_TYPE__)(value))
#define le16toh(value) ((__UINT16_TYPE__)(value))
#define le32toh(value) ((__UINT32_TYPE__)(value))
#define le64toh(value) ((__UINT64_TYPE__)(value))
#endif
