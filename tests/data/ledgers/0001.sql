BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;
INSERT INTO "attach" VALUES('a-1',9,9,1795963147362331932,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',12,1795963147362342188,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',18,15,1795963147362347212,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','fallback','mapping_failed','mmap','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee',NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',20,20,1795963147362358100,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','mapped','proved',23,NULL,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',24,24,1795963147362367102,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unprovable',26,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(12,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'fb4810daa6de41e998561e9aaa199f8c','daemon.started',1,1795963147362286805,1795963147363823820,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'D93EF537C3C2F890DAE69DE004EDB2C0',X'3DA557A99972EDC7644CEC4A6559C4C3D0A79ED17D8CF895BFAC673FC783BBEA',X'E2905F866C64C82B1E37CAB5E6D362B1AF86EB9820D07AC240DE383877394C4F');
INSERT INTO "event" VALUES(2,'residency/r-1',1,'da453b34f2834b01b05d2c6c98e52a96','load.started',1,1795963147362291396,1795963147363823820,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'5AE0DD3F9427165ECFCB64BCCABA00F1',X'F026811D9B33C461FD193B539F3E514464784440A392C6F1579C0B2AADD53D13',X'254FF22DC57AEAF6BF8EC37BB9629C17183AD6C17835E9E249B33E76154F849E');
INSERT INTO "event" VALUES(3,'fingerprint/13bbdb5e7a3cf3eaa8f4920924b31ec0',1,'2e9be3e5653c422a96cee2e2a26a1205','fingerprint.recorded',1,1795963147362295283,1795963147363823820,0,'{"fingerprint":"13bbdb5e7a3cf3eaa8f4920924b31ec0","evidence":{"tier":"header","algorithm":"wcache/weights/1","digest":"1111111111111111111111111111111111111111111111111111111111111111","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'C6455CE31DD9EC152494DE3BFEF339DD',X'B47CD3894727598F0B04D795051E7CC01BCD00332B5128E002B699A2C3E5870B',X'88C1AC68F3374FC8E5F6C70FADCE9E1426EB2CACE825E6E4CDAD0DA57D66F0E2');
INSERT INTO "event" VALUES(4,'fingerprint/a947c05092eafbde8221d9a9694885b6',1,'099873f021b04bbbb6a7a76fa15d3020','fingerprint.recorded',1,1795963147362304054,1795963147363823820,0,'{"fingerprint":"a947c05092eafbde8221d9a9694885b6","evidence":{"tier":"sampled","algorithm":"wcache/weights/1","digest":"2222222222222222222222222222222222222222222222222222222222222222","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":"s1","file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'FB7C8CDE40CEEF6F320750BC88CB6708',X'7575819895E08A3A280FCB3CD71151460B18CB0D1334A830D8E557D78430E69F',X'21EB976F398D204E49B5E4841AC69D2F8AA4ACDB030A02CF3E1136179FCF0F42');
INSERT INTO "event" VALUES(5,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'5d56bf00ea824859a05576ca6322489e','fingerprint.recorded',1,1795963147362315610,1795963147363823820,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'86E450FD5E7A528CED984BC10A8E04A8',X'038F83F5ECC5D24D4F3BC5D83B47EC7F04287EA64C4DC7A3DA0EA7F21F0F9794',X'2D3227D186A475354E3C7B935B3AA503EAF9CCF633D43641043D45B46E5717EF');
INSERT INTO "event" VALUES(6,'residency/r-1',2,'605072deaa8e4102a67d4fe1500a74e4','load.completed',1,1795963147362320629,1795963147363823820,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["13bbdb5e7a3cf3eaa8f4920924b31ec0","a947c05092eafbde8221d9a9694885b6","1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0}',X'90DCB7EC0C6566F42B6E49E454239B60',X'529623055A23818096EF49C47A3DEAE92FA9BD28C87E6F9438A2D78C06826824',X'C0DDEF1DBBC4F894413AA8F967726AED85623380F2F45FA7F1636FB8B54CF44D');
INSERT INTO "event" VALUES(7,'trust/g-1',1,'7376b5e9504c47ff8c54bebeba9983a5','trust.granted',1,1795963147362324130,1795963147363823820,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'633B81102A6F602B6BAB432371252C2F',X'4BE8C833F801415E7C0C085F5622668D1B5D0E4429019B2FDF249F16D0851C07',X'5EFC0E271FE7E41700F36074F03F78319071266956AE60C988EFADA2E5236255');
INSERT INTO "event" VALUES(8,'trust/g-1',2,'81f7c7c2ce054c0ea42471123b2af6d9','trust.revoked',1,1795963147362328706,1795963147363823820,0,'{"grant":"g-1","operator_uid":0,"reason":""}',X'480F550436C404095C4EA143C498CF1F',X'76F75F09483E2FD548FD69E6C2315450BE8A629D2229505FB039A343C786E683',X'255D50D4E5EC417EE603376F2A9ED51BCCAFE9F07E4B46A2E0F51B942E8C8543');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'5b4c6e2a6acb4fbea3fc121bb5689246','attach.decided',1,1795963147362331932,1795963147363823820,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'60A6EC9FBCA1DCAB72A3D93F7FFFF473',X'A66BFE152EFF6A5CB4E3E9C8F0A7F901F884AD174588EAB613FC4ACD25D51F47',X'6A4002ABF807790AEDB4130E1D6019B00BAF66B18E7C707D5BA6E0290E5689FE');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'ec1ae504162d4239943f1d789a2e5366','lease.granted',1,1795963147362334770,1795963147363823820,0,'{"attach":"a-1","residency":"r-1"}',X'F281AF79BA7E6C3EEA81E48D07091CF8',X'559A0134F0457CCDC2DDB69923E738BAEC7493A2AE073E40B41B09D84DB5ACA4',X'D8C927BE9D24DDF2BCF26E2229C9CA73C3A899DFB7F744C3F65FE9DA7B1D5CFE');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'79835a47fa2645439daa21e76a42f75e','map.completed',1,1795963147362337000,1795963147363823820,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'1096181AEEFD9EA05271D17AE501A6AD',X'5026A74E3C55F798364D5D8B12D813A03F33E867F26D0332E7A93420410C0376',X'C516D9C539AE73F5463AFE5E6B2B91D9971B7DAF3E6A38293AA54CED5FB2F74A');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'d01a33939d2e465882b566f264e57f8e','verify.failed',1,1795963147362339569,1795963147363823820,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'E9ABD877E7AB0045A6FF30FDC74E4552',X'F088BD2A41E4C8B4E7BD9DF64039E96C318A1A2EBA951ABE88E219F80791272F',X'A40E8A23B956FF4156B08FFB8A49948A281E3B6C09587D7107C071E200DD0EC8');
INSERT INTO "event" VALUES(13,'attach/a-1',5,'3737df84781843fea3fc4fadc2400aa1','lease.ended',1,1795963147362342188,1795963147363823820,0,'{"attach":"a-1","how":"closed"}',X'CF5C7265687DEF8FAFAC675D8CB60196',X'654B994D9536FE19CE81A2AF41CCB4775F02940B48B3C895DA2949A302052D2E',X'8E89A5B8C263A400861CE54F1EED96ABE9379C691E53560511229CF4C252F2E5');
INSERT INTO "event" VALUES(14,'attach/a-1',6,'9f8cfc752fea4878af636f7d79f74274','map.failed',1,1795963147362344731,1795963147363823820,1,'{"attach":"a-1","code":"mapping_failed","message":"mmap"}',X'A1A3E9CE96B9D7A06530EA964D9B38D5',X'814B5CE53D36AE849B53E2BFBAD18540DFCFF124D7D09D4ECD5515E60B39F0C6',X'E81BA3C0EA5F61BEBB141F795739C015221CE6651F55F29B602F242B12D3109C');
INSERT INTO "event" VALUES(15,'attach/a-2',1,'5386c5c437524f659c623c2e675c79cb','attach.decided',1,1795963147362347212,1795963147363823820,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'85BA3EE024BCB9BC30C1CBFA6C133025',X'4055E082F36D61DE1A12C7A13101668231AA1FA19F4B27DE15CE9F57286AD13D',X'E57411CA1478B31BC5AB71A94BFCFEFBBF4EA27B70097BB107CB1DA3F551CE05');
INSERT INTO "event" VALUES(16,'attach/a-2',2,'e0388e83627a4989ab6e7727b1224217','lease.granted',1,1795963147362349172,1795963147363823820,0,'{"attach":"a-2","residency":"r-1"}',X'D61DF981BD54A973EFB67DCF7AF92C66',X'EA4AAF675B9D8A78E5CDA3F8393E0D20411623E8DF8389B1DA768FFA8CF3BA87',X'C77111B8DA31898AFE00918FEE96A3BF5BE1858BD3F1A4A6E6243F71358A025C');
INSERT INTO "event" VALUES(17,'attach/a-2',3,'7b01b74d6e684c7fb9afb2796e18fa2b','map.failed',1,1795963147362351205,1795963147363823820,0,'{"attach":"a-2","code":"mapping_failed","message":"mmap"}',X'4D2038221C52C54ACAA853B79B160834',X'008324FBAA4FACDDA70D8600C687A8A5A45DBBD9D65DF515D361677EA243CE43',X'247EF82F49612950A388A559CED334AC27CCA99F3CD60C74D949F33FD11A25F6');
INSERT INTO "event" VALUES(18,'attach/a-2',4,'8456a762c7af4b43bf7cd7b45e968884','attach.redecided',1,1795963147362353656,1795963147363823820,0,'{"attach":"a-2","outcome":"fallback","reason":"mapping_failed","detail":"mmap"}',X'AF4F52098CDBFBF3DF706550EF99A777',X'2C83F3FE10A08563BCD4F47B3F25BA3E6851F9632270A94AF1FA699C7F5D6F6C',X'60581879C7D02BA1B442717F0B420BB34FE87EF5C89E7E1CB083E0C08635FBA3');
INSERT INTO "event" VALUES(19,'attach/a-2',5,'a4eea254fbc64b558579248071a3d161','fallback.completed',1,1795963147362355782,1795963147363823820,0,'{"attach":"a-2","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'125C2B92B9F28D050B7D5A3854AB24EB',X'6CABB008D7DE7E9BDEA4529569CB89231FFA81575A3182C8C106F53EAA97ECE3',X'DD88A3CFBDF09BA8D6FFF20E3D8444623C72A1E7E6BFD82FA481A74B98628D8F');
INSERT INTO "event" VALUES(20,'attach/a-3',1,'febbb2bf48534e9a9b54038896eeabc3','attach.decided',1,1795963147362358100,1795963147363823820,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'C1E656D35F1185B3D533237A33BA1D2B',X'D515329A3CBB3A8C4C5977B8C65764D70C5A647731A59888AD00058E334A9B61',X'220F43C93B6C623EB8357AD06D4DEE10E93AC51C1472C4B4A875E311002DA8A1');
INSERT INTO "event" VALUES(21,'attach/a-3',2,'98184ad2797c47e0aa9ef776ba00ece9','lease.granted',1,1795963147362360201,1795963147363823820,0,'{"attach":"a-3","residency":"r-1"}',X'61387F4DCAD893917AA6E069D2B72407',X'AEC83920B25373B880005DF94CA31ACCCFE0B03E18F0EEC7830C5E072B94F007',X'D4BEE314926E13097C95B55075D4A31903CC30117FFC147D164CD5DF60FEAF0C');
INSERT INTO "event" VALUES(22,'attach/a-3',3,'e8c3a9691ec6417d98b72555a274116f','map.completed',1,1795963147362362114,1795963147363823820,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'53EAB2BC1C030B072271EB8CCEC86E8E',X'DFE1DFEA29482E38AC7B5C057D76204D02225F0DAF0DC5D0B7287E7E28AE0D06',X'643AA1A99A18960861217CD0D176786D688C9CF7E4D1407CD93D472809C1468B');
INSERT INTO "event" VALUES(23,'attach/a-3',4,'e58c4f06b71c44da9346a2b8ddb23ae4','verify.passed',1,1795963147362365011,1795963147363823820,0,'{"subject":"hit","attach":"a-3","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1}',X'A7751D11EB6867002282D504F516B58A',X'BC02A51F4C280B8C089F5A5ABCD5B6586E657BCED74CC1339FF63B975BB0E1C0',X'B3B8088B8DF31D45EB75D235913144BAE1E29063B69C15364DA654CFA43CAA05');
INSERT INTO "event" VALUES(24,'attach/a-4',1,'84bc6be39a064083a3e2966548c9ec4e','attach.decided',1,1795963147362367102,1795963147363823820,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'7301C4894B73900DCFD623F3BE0EC356',X'036BDD43290A29E91124DF4755E0BE53B84A6B294CDFF1F837290BB41F83786D',X'B81D8CD3ABEA7BA6EF4C992FB65EA3DD3D0CCDB3967878B1302100E8FFDB1E0A');
INSERT INTO "event" VALUES(25,'attach/a-4',2,'f63cd536e01b4c58a5eb2f5304ae198c','lease.granted',1,1795963147362368910,1795963147363823820,0,'{"attach":"a-4","residency":"r-1"}',X'F3F88C65130EFCC9BB4205B23B88FB77',X'A9C72DF60911797EDB4EA481A582BD1588E28823E22F9703087B430DFD3B85FD',X'667F78F27537609E4017D4070B1C910F7B7B5943BAE73528828EEBC79AFD4BE5');
INSERT INTO "event" VALUES(26,'attach/a-4',3,'79d37675c2f845d080078671ac8a38c5','verify.inconclusive',1,1795963147362371566,1795963147363823820,0,'{"subject":"hit","attach":"a-4","residency":"r-1","why":"the files changed"}',X'8937C1C23D0D2EFC8B70AE4719D683AF',X'1C970EF39BCA593BCFB5554E564490703BCADCBA332094BA6CD8A544D87CB6A8',X'15D958C0444627596DAC80873CB2407837C1E48BF49DC08B9A00DE36228634F9');
INSERT INTO "event" VALUES(27,'residency/r-2',1,'99ad208df6424fefbc5aa5008d2f0167','load.failed',1,1795963147362373734,1795963147363823820,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"code":"no_room","message":"no room","detail":""}',X'F61CE0A15C1B827EB4BBB6047A8A98CF',X'3443C89E8ED69938D8FD1E3BF68766870828597B767EC2E0D52ADCDB7CF21CC0',X'CD4362203EA4AAC545C64C4C2E55A5D2B075752632F0A9863F2450BFE036813C');
INSERT INTO "event" VALUES(28,'residency/r-1',3,'77881d98e2d24cfb8ce1ee63e2b3ee27','release.refused',1,1795963147362385246,1795963147363823820,0,'{"residency":"r-1","uid":0,"why":"leased","leases":["a-3"]}',X'DF8874EC97E78A3AB745BCD4BA4535B8',X'D7355284F5D3F0213BF86FE44AA189BD23872BB33EB27220CC932C0D05C0618F',X'1C6FD231CA38C6AB38CB501BC690DB333A7F14D9C6045C5653F0018B43C28B76');
INSERT INTO "event" VALUES(29,'residency/r-1',4,'7b5c2dd18432459dbd4c6f0972ceed82','mutation.detected',1,1795963147362388372,1795963147363823820,0,'{"residency":"r-1","tensors":["w"]}',X'93C78810B01134F0D21C07AD9B2D0E4F',X'DDB403F9BB36ADDC1A6686BE35DB3D2FA943AC66CE52482E9F86DCAC7BB69B5D',X'DBFE96B2E4E9CDE855B7B5655B9DC7D359C4C01A43FF554C605E2D7675376974');
INSERT INTO "event" VALUES(30,'residency/r-1',5,'6689f4f21f084f2a910651e797302acd','release.requested',1,1795963147362390664,1795963147363823820,0,'{"residency":"r-1","uid":0,"why":"asked","force":false,"leases":[]}',X'BDAF6F19ED9A70A56891A58E6EDFBB96',X'BE48389F80780A605AA8EAEF2579D289C4D1F89D3AD89ABA6C62A12CA56E6C77',X'56B711039A2E9250FBC050DCE230F11F5E089A99A0BA0A73372902BC545B5E50');
INSERT INTO "event" VALUES(31,'residency/r-1',6,'50ac19421fcd43e8a699878b8baa740d','release.completed',1,1795963147362392780,1795963147363823820,0,'{"residency":"r-1","bytes":1000}',X'3482B5639F4A13A66AD795BDB4D0633E',X'87D31CC39F4D8EC0E2F062B0CB41B299704C0CE641144A8A1DC7AB3A00752518',X'FD8C129A83ECD7B71B90873AFC1B7D854F90E7E5619493234DC93069037B4001');
INSERT INTO "event" VALUES(32,'residency/r-3',1,'b75517da5ee94310863219dcd9148d83','load.started',1,1795963147362394621,1795963147363823820,0,'{"residency":"r-3","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'633D23E3AFAC0D40124C51B7F3625E6A',X'D9DE3AD68FE62DBFC152B54C8CABE170A2F638C5F37F74DD8E86144144AF77B4',X'A6965E51A202C0FE1FFA17C23E79ED5C4355A7E8206688F4ADA25BDD8601BDE4');
INSERT INTO "event" VALUES(33,'residency/r-3',2,'4a0a593cef1c450abf8ae119a63103bb','residency.lost',1,1795963147362402108,1795963147363823820,0,'{"residency":"r-3","why":"gone"}',X'90E61E38AA6E07052EBB807206B1D010',X'9E9D874F3CE90A2FB819CB17D5006CDAAFCFA0EBC5F2CA8F49EA2DA412712C1D',X'1B918779E1D88CF26F088F227D677D8617B9C2BCF5949302C1DF047713CB3A52');
INSERT INTO "event" VALUES(34,'ledger',1,'b56324400f9c4b76b2d5df750b2a25b6','peer.refused',1,1795963147362405402,1795963147363823820,0,'{"peer":{"uid":1000,"pid":5},"why":"another user"}',X'9D87CF47C5A5C7A0F29C64B35C1257CF',X'2BF6850DC3EAB4EF744F2E8BBFD64C9D9666B11D4D90469813DE34CDEBDB3A94',X'3255CEB39B1FF923999A4B0E47346008A34FFE73BCAB95251F708C67CD9021AC');
INSERT INTO "event" VALUES(35,'ledger',2,'a636fd02a2cc4d9aa748627faa41ca42','ledger.gap',1,1795963147362407691,1795963147363823820,0,'{"from_ns":1,"to_ns":2,"merged":1,"lost":0,"why":"full"}',X'A3FD33458A2E7CE5FF848DC4E7422800',X'51F80BDA7CD494821FB2E4B53582E239D1F585CEA6AC7604EE6EF1744D07D772',X'85EEF5B6BA5BC0CF042BAF726250C66F1E877D75896C17E5C76D0C9B7D5E681E');
INSERT INTO "event" VALUES(36,'daemon/d-1',2,'72c563370b054c04ae58eb42f1910905','daemon.stopped',1,1795963147362409899,1795963147363823820,0,'{"instance":"d-1","by":"signal"}',X'0005510805B30ACC53437FBE1925F244',X'23CD44D271EE0F22C7DF2D471508F3D8D1EB2F8E5983053E4F1C2563B3F765D6',X'9D7EC0111E30FF072805B075B892F535C5F1A0D06F863C7DA36A318F15DFD869');
INSERT INTO "event" VALUES(37,'daemon/d-2',1,'90442b81a6ef4d5084ad1428cf2f6ef9','daemon.started',1,1795963147362411684,1795963147363823820,0,'{"instance":"d-2","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'6099CB88D53C6BB23B36A980EE6C3FD7',X'852DD62CCBEB7B9B057584237CA836C7761E5804FF45D7CA576C27F1A5A64024',X'7D56A4280E0C7F644A3CE4CE9ABA80B80C38C2E8AA058808AADCB68E5862BBFF');
INSERT INTO "event" VALUES(38,'daemon/d-2',2,'9a6a5d5834d64501b5f5d9c5953f8e88','daemon.lost',1,1795963147362413536,1795963147363823820,0,'{"instance":"d-2","noticed_by":"d-3"}',X'1DE1826DE86ACE2905C40CD42D249153',X'AFDF5789FEBA8EE80ADA1B409C41657E652A7D436F591FF9F39F9A4D3A38F4F7',X'1497B14185B209F2D74C017B3719FD405CA3662F8FCF794035054C59E668A1AB');
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;
INSERT INTO "fingerprint" VALUES('13bbdb5e7a3cf3eaa8f4920924b31ec0',3,'header','1111111111111111111111111111111111111111111111111111111111111111',NULL,'/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795963147363823820,1,'{"tier":"header","algorithm":"wcache/weights/1","digest":"1111111111111111111111111111111111111111111111111111111111111111","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('a947c05092eafbde8221d9a9694885b6',4,'sampled','2222222222222222222222222222222222222222222222222222222222222222',NULL,'/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795963147363823820,1,'{"tier":"sampled","algorithm":"wcache/weights/1","digest":"2222222222222222222222222222222222222222222222222222222222222222","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":null,"seed_id":"s1","file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',5,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795963147363823820,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('d-1',1,'stopped',1795963147362286805,1795963147362409899,10,0,'1','boot','/run/wcache');
INSERT INTO "instance" VALUES('d-2',37,'lost',1795963147362411684,1795963147362413536,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795963147347235257');
INSERT INTO "meta" VALUES('origin','36dfd14513292d9760b476b1aad069bb');
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
INSERT INTO "policy" VALUES('ecbf1c02a252e835d08fab320a8a85fd','{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"}');
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;
INSERT INTO "residency" VALUES('r-1',6,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795963147362320629,1795963147362392780,'d-1','{"header":"1111111111111111111111111111111111111111111111111111111111111111","sampled:s1":"2222222222222222222222222222222222222222222222222222222222222222"}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',27,'/models/base','/models/base','org/base','c0ffee',NULL,NULL,NULL,NULL,NULL,NULL,'failed',NULL,1795963147362373734,NULL,'{}','["/models/base","org/base"]','[]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null}');
INSERT INTO "residency" VALUES('r-3',32,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,NULL,NULL,'lost',NULL,1795963147362402108,'d-1','{}','["/models/base","org/base"]','[]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',5,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',6,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',6,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"fell_back","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"mapped","outcome":"hit","arrived":true,"proof":"proved"}');
INSERT INTO "stream" VALUES('attach/a-4',3,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unprovable"}');
INSERT INTO "stream" VALUES('daemon/d-1',2,'');
INSERT INTO "stream" VALUES('daemon/d-2',2,'');
INSERT INTO "stream" VALUES('fingerprint/13bbdb5e7a3cf3eaa8f4920924b31ec0',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('fingerprint/a947c05092eafbde8221d9a9694885b6',1,'');
INSERT INTO "stream" VALUES('ledger',2,'');
INSERT INTO "stream" VALUES('residency/r-1',6,'released');
INSERT INTO "stream" VALUES('residency/r-2',1,'failed');
INSERT INTO "stream" VALUES('residency/r-3',2,'lost');
INSERT INTO "stream" VALUES('trust/g-1',2,'revoked');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',7,'checkpoint','revoked','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',8);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE UNIQUE INDEX attach_seq ON attach (seq);
CREATE INDEX attach_launch ON attach (launch);
CREATE INDEX attach_decided_ns ON attach (decided_ns);
CREATE INDEX attach_residency ON attach (residency);
CREATE INDEX residency_state ON residency (state);
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);
COMMIT;
