/* CRC-32C of bytes, going on from the CRC of what came before them. */
#ifndef HEADRACE_CRC32C_H
#define HEADRACE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Once, before the first `crc32c`. */
void crc32c_init(void);
uint32_t crc32c(const unsigned char *data, size_t size, uint32_t before);

#endif
