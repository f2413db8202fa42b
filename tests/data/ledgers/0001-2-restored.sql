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
INSERT INTO "attach" VALUES('a-1',9,9,1795986725523566530,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','proved',34,1795986725523574470,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',13,13,1795986725523576427,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',16,1795986725523585154,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',18,18,1795986725523587751,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986725588069590,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',21,21,1795986725523593936,'l-1',0,2,'node','test','1',0,'/models/base',NULL,'raw','cpu','fallback','not_resident','',NULL,NULL,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee',NULL,NULL,NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[]','server');
INSERT INTO "attach" VALUES('a-5',25,25,1795986725523602428,'l-1',0,2,'node','test','1',0,'/models/base','r-2','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986725523609512,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-6',35,35,1795986725553402434,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986725865083065,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-7',41,41,1795986725588073830,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unproven',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(16,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
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
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'bd8ba9bd8d594ac59792ee63be955318','daemon.started',1,1795986725523542694,1795986725524438568,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'9B61DF79B6A2A1C670D95B570BFB4482',X'736EA2EA84A388177DCF744958BABD9EF5BB6780DB2672E9A1E5C801E86F4157',X'174DC775DCB26716780917558F94D3EE155538662DF8D9299221A4E6959BAF29');
INSERT INTO "event" VALUES(2,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'8dbdf3cdf1534862a6b310762ade10f3','fingerprint.recorded',1,1795986725523547857,1795986725524438568,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'B403933FBA17B25F8A4A930E4CDCE20D',X'2F1570F07183458DEF3C4C71FF96D4DFC573F872E15DA5997E1DBB7B1DDCB336',X'5E0042675BE932BBFC47F2C98E447C3AB2E4075C9A8CD38CC85EBEAD0F40CEFD');
INSERT INTO "event" VALUES(3,'fingerprint/3f10fec20294af230a35eb846e15693b',1,'131fb35508be4330bbb23555fbc76379','fingerprint.recorded',1,1795986725523550372,1795986725524438568,0,'{"fingerprint":"3f10fec20294af230a35eb846e15693b","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'947B8B38A5E2F4636509D30F2E67E5F0',X'06966D38FB6E358F2083E2CEEDEEE5C93EC6EE1ED74B3AE3C2FD5A4CF96B435A',X'2A09132FDC66977E9792F9CDDE276DDD22CD78403A9D014E63F70D1181415252');
INSERT INTO "event" VALUES(4,'trust/g-1',1,'8df25033da234f4cb651db2a9807c933','trust.granted',1,1795986725523552996,1795986725524438568,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'FD80F2B8680B9EA184349B73654F9E5E',X'601B1B12EDA2303324C1377539F8F80F55A073BA18B7921AD9F1305D734BEEEA',X'15EC137C1559984C964621C2B70A54EFEA0DD08047BE318D333BB2C40160B947');
INSERT INTO "event" VALUES(5,'trust/g-2',1,'0b9b7a7c526e4d77aa696caeecdd3c34','trust.granted',1,1795986725523555622,1795986725524438568,0,'{"grant":{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'C84357908AAA972D6D64E1EB2348C1FE',X'5B948E326E850059559128324DBEB61128F3EA6174860C7BEFB6672E894E7B93',X'C373F72F5823D13930DB7028E5818010E22C44801FCA2ACF1D410239954440EF');
INSERT INTO "event" VALUES(6,'trust/g-2',2,'6d841eb3ecaf4a9395587dcce3a4e6c5','trust.revoked',1,1795986725523558282,1795986725524438568,0,'{"grant":"g-2","operator_uid":0,"reason":""}',X'465200F1999AD33124E57FBB6F4F61F1',X'EA88B3EFDFF996F32AAEFE12E6651BE768A44E591948F84DEC18FB3D480B5CCB',X'DC4A8F8A340AC3C9C29FDAB0CA37C511569A3582BECF86325AABC5E961557A71');
INSERT INTO "event" VALUES(7,'residency/r-1',1,'34ee63bd1b7c49cfb6b1d1dde48a52ea','load.started',1,1795986725523561386,1795986725524438568,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'17A7C43F97007681B28F425A68F235F1',X'5015AC7095AD8C6518D89D8C3FE05BE177D5F8841658F52F8BC1E917DF3C9A58',X'1F30663C4CAF5E4868B62CDF49D2F8CDB4007350904DD94B48CFB3878929FBC3');
INSERT INTO "event" VALUES(8,'residency/r-1',2,'ba04d6cc53414a90a7d6a0a2a09623a2','load.completed',1,1795986725523564306,1795986725524438568,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'70CFACB41B0914F2E82A258DB8341864',X'FE9BB709F7BCE93F2B5428E97B80D4E5659AA2D31B9B10B5BA66E13BA2BD1E1A',X'883400AC7F70ABD97191F496FCBAFCB6472A3C47E91ECAF94EC1CE99B5156AD4');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'66f19cf4eab34ce0903cbfa69971ebde','attach.decided',1,1795986725523566530,1795986725524438568,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'F5B890BD24BA01E63D608C0FC6EBE2B3',X'E7F0AEAADEC81F9A93AD7571B0E2B5E4FD7D380715DBB6035F03D0BB724FA11A',X'00120F3FE7241F0444E31F814208C3624BB516CA9B1248E8F3222C473840C166');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'1af82e3073434bf290038155f208e493','lease.granted',1,1795986725523568958,1795986725524438568,0,'{"attach":"a-1","residency":"r-1"}',X'58E9518007D780F2CC7B6D01DFFFE270',X'CAE5AADC734A490543EB68FF5611AF326753BFA392E3CE0ECFF62B5BB34C27B3',X'2D4306B5E7FFA064E360F7A1D03F5BA7CF438FCC716F62B68A0278C717C4E0F6');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'030b92ece1724387ae0bdd457b228a4b','map.completed',1,1795986725523571764,1795986725524438568,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'05C027E9029FB23043271927F267717B',X'B902103A4EF4A8E9DE4D4C633D1335172F25D7A4C7FA276126176037568860D7',X'D66A8A31F6B964D18B972C96F58A365503A125D0AC3CBF213809296E777A40BC');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'29d59f1273b143319fbfe0d08eb800a0','lease.ended',1,1795986725523574470,1795986725524438568,0,'{"attach":"a-1","how":"closed","checked":""}',X'B91D3E52160DE8F8CEE63756762B2AB1',X'076216D7D70E5AF3884083489736C69A7C9BCFF5009BC5981AD7B703614AC71B',X'BABDE9F1EF67A177069CB46D2BC6C74F4505F9A4CAE0C4F062679578F3A8CBC5');
INSERT INTO "event" VALUES(13,'attach/a-2',1,'a6006e3a544842dd9af47ea01e075624','attach.decided',1,1795986725523576427,1795986725524438568,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'866C26A2FDB5F1DFD902B0D157EA13DD',X'91316C86A664C1376A9F6C015CD3D5273EADB732F69A46C2A0CD0B53DB626238',X'50DC008F571BAD6EBCC59325C74D7A3CDC7ECF15F2F5A2FF09C3FCEE859E7990');
INSERT INTO "event" VALUES(14,'attach/a-2',2,'67b4862e154c42ae9403b36e41b316fc','lease.granted',1,1795986725523578146,1795986725524438568,0,'{"attach":"a-2","residency":"r-1"}',X'6F0E53BB7A4863760774826B7217DB7D',X'352D79425F39D3F163BF183B07D58BF1F896B8E88FEE27E67EB8F6DA1D7CC627',X'73AE3527F33B90659318253A96529509ACD6E7CF31CFACE9D23876EF8D02992A');
INSERT INTO "event" VALUES(15,'attach/a-2',3,'3cd0ac1b3f6741d5850846548bfed4c3','map.completed',1,1795986725523580488,1795986725524438568,0,'{"attach":"a-2","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'FDF4D4648FDD217D30D61CE168CB5F56',X'4A60775F0F0E71B7E77FDFA56DB8A49AC2D29CBE3A74723D9B98403D23EF348B',X'6B2961C6BF66A4C58D91ABA214B2BA7CE33B87B51B530ADAEFD0184B96E26F92');
INSERT INTO "event" VALUES(16,'attach/a-2',4,'e02cbfa5d5454f48bf13bb3ba602cb3f','verify.failed',1,1795986725523582759,1795986725524438568,0,'{"subject":"hit","attach":"a-2","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'8534001E3025A46EFFA6DA633B650AC7',X'D402E52EAFC7DED48F9D627386B57289AD5770B7968715E2ABA437C8879992C2',X'9B11B216C87C741955867AEC90A668B1724FEF962200A53BA94F836E62AF6E0F');
INSERT INTO "event" VALUES(17,'attach/a-2',5,'6fada800bd854b03b964e2dd87a8626b','lease.ended',1,1795986725523585154,1795986725524438568,0,'{"attach":"a-2","how":"closed","checked":""}',X'D49E18A50DD73569B285784D1A81E69B',X'600099445C57E42A39912D8F1162A7612FFBF67AFABF9FBC48B2FC89FE0524EE',X'5734D73345E669E3E09F4348FA5E47C1A353F70BAB865C486439DEA81FFCFD57');
INSERT INTO "event" VALUES(18,'attach/a-3',1,'eb11898010d24feab7c2fc00bf0acd4f','attach.decided',1,1795986725523587751,1795986725524438568,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'55F13218299707CF8DC51F7A8F0FD9AF',X'AC94C3129A5C66D1FBF6609C449622D9C97376DFF58CB1B40A68020C7572EA5B',X'3A9D4CB75CAD88616BB4861755851D8B70BD4B1CBB6BF1D4709C964DC89FD919');
INSERT INTO "event" VALUES(19,'attach/a-3',2,'5ab6dbce96b94fbb87648673b12417af','lease.granted',1,1795986725523589616,1795986725524438568,0,'{"attach":"a-3","residency":"r-1"}',X'D1EC439D52FCBBD0738325FA351E9289',X'315969F7CC92C088C2485C17A760E467F85AAE86C121057DC6A5D42773655E7D',X'9363ED7F98A9FA82E6B01AB98CA2A27BF0B82B89864331C8B0605D58CC85D5A2');
INSERT INTO "event" VALUES(20,'attach/a-3',3,'a7646431a9c749c7a3d65bb7854e4c8a','map.completed',1,1795986725523591623,1795986725524438568,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'3CDEE72739B03E3BA4CC5D296D7F6D6A',X'27076BE9840E2BD78D2A06FA7C5560AF6D261875FB4A35623E9D3C95FA027168',X'B90BA870FF1886FADE3D4C1B889F128CFB796626F526D601449AD16FE8DFD443');
INSERT INTO "event" VALUES(21,'attach/a-4',1,'24d63b3467f042a6a1fe7716b571c7af','attach.decided',1,1795986725523593936,1795986725524438568,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":null,"residency":null,"kind":"raw","device":"cpu","outcome":"fallback","reason":"not_resident","detail":"","tier":null,"mode":null,"evidence":[],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'EF1D0A97288BBE6679BCFCDC8008A95B',X'F1C155149C611AB0ECAB99F3DC9D36326A55AC47CED3C7AB5412CE1536B22F85',X'C44CC5AE57DCB15BBB7675003648EF0CED75EE9E74B2CAC0A3F0ECAB103C1B1E');
INSERT INTO "event" VALUES(22,'attach/a-4',2,'8689457fed68479fb8ded582eecaa743','fallback.completed',1,1795986725523596199,1795986725524438568,0,'{"attach":"a-4","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'967E7AEB23CD136E73AE1C0A914FF5B2',X'D897CC19C4AAEF4DC707620E747A2DA5FCA130222525BD369EC1DB86E6483980',X'9D53D5902492DACC7A6AA87F921F83EC8E36BAB37FFBCA11D00B0D217D72DA0A');
INSERT INTO "event" VALUES(23,'residency/r-2',1,'f8a1d84b927d463298efe01f7a13b17a','load.started',1,1795986725523598216,1795986725524438568,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'816D52D51926547ABCE85F68B335CCDC',X'AFCFDDDC20D526AB4744008701B85A0DF74BD98E76172440505F06324438DB66',X'91925C854A1C6DF43E86276DF7F7D88F41BD2D7ABDC9A859991117BA46AB5829');
INSERT INTO "event" VALUES(24,'residency/r-2',2,'1ae719bcd95f4b8f818fe96553302aaa','load.completed',1,1795986725523600059,1795986725524438568,0,'{"residency":"r-2","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":[],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'6C059EFAA9DCEF4F5A01E7533A58DAC2',X'B0E2E2DEA360A5C754F999A6B6F1C4FC2C01BFDF0760973FCC4B95D27118A732',X'0BD5C7677061F6C864C6C37DBFA492F94C7F0F6DD34E98423BC497F18BE373E2');
INSERT INTO "event" VALUES(25,'attach/a-5',1,'57c960d8ce9e4040ba210b11373c8682','attach.decided',1,1795986725523602428,1795986725524438568,0,'{"attach":"a-5","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-2","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'9792A14DB952D5735CC6C18B82AB0E98',X'426B9D84EDD370CFD9E19A66DB04960B02172C9F6C587CE9441190F94D115ADF',X'CB66157C72024216DA7667F1B17B16487A0BC84F0E3442C0A6CBD54D45BF1EFB');
INSERT INTO "event" VALUES(26,'attach/a-5',2,'c49a143740254a15bddaa4266f538c2c','lease.granted',1,1795986725523605415,1795986725524438568,0,'{"attach":"a-5","residency":"r-2"}',X'5DED5D6C4E88D26EAAEE144061C25072',X'83ECA2FB775907AF81566017FEB716244DAB1912522C738E9D2BEB77CA5E6F7C',X'A37E32856C7D3815E60D4A0A51BE05D951E410093F8637964859BD84FE63C96E');
INSERT INTO "event" VALUES(27,'attach/a-5',3,'8e4b4f47f1ad40738610c47c32c6324b','map.completed',1,1795986725523607339,1795986725524438568,0,'{"attach":"a-5","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'00013C97580F70DA0F58F7615A5B54C1',X'8A7A0A59D55F3CEA96E7F7B07F182A5228E57A56DCEB70CF8CA9882584D802E3',X'C90C1AAF31E47D9099D291AFA7156D9948D412524FE9DAD9D824A50389BF6D00');
INSERT INTO "event" VALUES(28,'attach/a-5',4,'b4c6102859b34e8a9e4282e2528ed72f','lease.ended',1,1795986725523609512,1795986725524438568,0,'{"attach":"a-5","how":"closed","checked":""}',X'455B49108435FE5EA49E8FA755D94115',X'FC5E4F6E25C919831089572026F6AE646F66AD797E01072D9BBD08047FDB4387',X'B9CA79FFECCC37940501AE610A25C12DD74CA2D7B3DD5AD9E619F05764CA65AF');
INSERT INTO "event" VALUES(29,'residency/r-2',3,'3efc7b36658348cd8b2673509a8a4b0a','release.requested',1,1795986725523612189,1795986725524438568,0,'{"residency":"r-2","uid":0,"why":"asked","force":false,"leases":[],"when_free":false}',X'F95EC3F9B93AF050C01703BD0E21BF00',X'902FB3CD418E879625F575F33995701AD645A785EF5C28576D2B6D420AF1CA44',X'3BE969DA94A3A2F74835567C1A0C173E229E50546AA95B9AA1886F9C69FD02AA');
INSERT INTO "event" VALUES(30,'residency/r-2',4,'60140b68e2ec4fcaada6b7ca16524bd7','release.completed',1,1795986725523614364,1795986725524438568,0,'{"residency":"r-2","bytes":1000,"checked":""}',X'44E50278CA30CDFA9D0ED7DBE2E2B844',X'9E97C0A9D9191BD80722D4C1BEE3CB34A17B322287D498D516517FC7F97E803D',X'6B522B01ADA33A8FE4FBAD32D6E859D15E79C1371C43B1D76017854EF1D65F5B');
INSERT INTO "event" VALUES(31,'ledger',1,'dd9e679eaafd4a6485925ec48b723131','peer.refused',1,1795986725523616652,1795986725524438568,0,'{"peer":{"uid":1000,"pid":5},"why":"another user"}',X'AD82A9D8440C81B467C0187816CA9833',X'95778045444ED8C2CDDB133B9141ED3BF51985A500CEA65831D694DCA03746A5',X'8E8D652246C8019C1DBB0D3B2D22BFB64C902D129BECF9A59DA23390838A97A5');
INSERT INTO "event" VALUES(32,'ledger',2,'6bc99ed2dbce400b8d9c4094752f1e1e','segment.closed',1,1795986725547091184,1795986725547187865,0,'{"size":31,"root":"d7b7077ce460bdc587b1de47c9e9cf42587b390844ce96bea0d8acbe2bd2c5f5","uid":0}',X'772539032EBAEC7A61B6DBB7043D0ED9',X'D58BE08B1860C3489E2112E33389901B38AA495B2F3908E6E1279D71DB8ADB74',X'2211E30CAB725A3E3F9980349A0099223F6B00DDAFD44ACC7479A4C92B0B5D37');
INSERT INTO "event" VALUES(33,'ledger',3,'49755007eb4d40c08cc0fb76c94623fc','segment.opened',1,1795986725547482823,1795986725547522872,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":32,"root":"42957944e012b1b6804ca5c48094c05d8d20c57a3db72244f95f0382373fa004","frontier":["42957944e012b1b6804ca5c48094c05d8d20c57a3db72244f95f0382373fa004"],"chain":"2211e30cab725a3e3f9980349a0099223f6b00ddafd44acc7479a4c92b0b5d37","origin":"5d0a392847bbf1dd5d37e85a1c1dd1e3"}',X'C6DB5CA5BA697B2D4B5AA5C88CE48BDF',X'005D2A93A7FBD979F2409D17FD3D520D700CF4547324E5BABC59305C00E07A2D',X'669A50A4CD95424E24E49596A9B193F546390D7A641DF2E84F97F37785A46739');
INSERT INTO "event" VALUES(34,'attach/a-1',5,'9aa07192f540488ab2a41ce30ae9bf3d','verify.passed',1,1795986725553398930,1795986725553693340,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'27019A7F4BCC6C5929A1B10961388D22',X'E9EF0FB62DE598FC0F8A3DEDB6F5031E6A915CDD823A1279BD5628574AF69FD7',X'A2F8968A9F36F389A08259425E4D1818FF23D6F0DB6C434DC6BEC841FEE8CE9C');
INSERT INTO "event" VALUES(35,'attach/a-6',1,'23599e915531417ba64d446e9ea6136d','attach.decided',1,1795986725553402434,1795986725553693340,0,'{"attach":"a-6","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'8BAB3AAFB62DC7F405399A7E60CC6AEC',X'CC021A3BDA3D7D30C21209E8FF7F9D369E4FE5487579CEEDBC1A221655948C4F',X'65A5837FFDEF944D9FDA058D9380F6F972A9FF968CD9C228BC58500DCF1E54FA');
INSERT INTO "event" VALUES(36,'attach/a-6',2,'9ba049e6204b4c3a845ce8ba9996390c','lease.granted',1,1795986725553404872,1795986725553693340,0,'{"attach":"a-6","residency":"r-1"}',X'A5A44083339A53438BEA708ECBB33BC0',X'B096BDFD5A680EE5CEA225D7377A48C067AD9279CB478FAA2CFB0416EB2CA429',X'A2E90911B4853AB579FD851BF56B62A972614D0288D73D41C8B6560EC983CC5A');
INSERT INTO "event" VALUES(37,'attach/a-6',3,'d5344edf743643d085f76d5da3eb37aa','map.completed',1,1795986725553413512,1795986725553693340,0,'{"attach":"a-6","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'61B80687A501598113DEDD4D6A4BF4C6',X'AD737EAA101568DEB68714031D79A30D601BE5CFA089FA15249F67590BCEED0F',X'D85AD5868951ED918C7C58F95BBC822123F16688ED83E05D33140D3C55A0AC7A');
INSERT INTO "event" VALUES(38,'ledger',4,'ca4e86c146c2453d84dce0e2e5817979','segment.closed',1,1795986725572950128,1795986725573013441,0,'{"size":37,"root":"43ea1222853bb8f1f2cb7970f33341f624db980c272c789ecc109241becfb83c","uid":0}',X'2466D4E43F8375D97C2A4D6D31C94D27',X'9109CCA41B20D461B51BB21BC489867F33E3CE7B899CBB43FC56B09005B5B263',X'8B7D75F7607EFA3AFA4C66FE90EA7289983FE7BBF340FCD803D72DA29CA78AA7');
INSERT INTO "event" VALUES(39,'ledger',5,'ef8df455083a4c50a4a4ee7bf782a35f','segment.opened',1,1795986725573225430,1795986725573270290,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":38,"root":"86b6ca3380d1639dec332211741d787d97c1277a303b6017cddd5b02cdac659d","frontier":["42957944e012b1b6804ca5c48094c05d8d20c57a3db72244f95f0382373fa004","021afdd8170bbe3164c58a7546605d6ec09318a14cf3d7d590cb18a5c4862eb6","6cd9e5c5109a9e18c886be18f7863dea886f954c24b907dedcb54c43763659bd"],"chain":"8b7d75f7607efa3afa4c66fe90ea7289983fe7bbf340fcd803d72da29ca78aa7","origin":"5d0a392847bbf1dd5d37e85a1c1dd1e3"}',X'26B0F01028E85084FBCE0D6AC2DF480F',X'E1407427486723BE9BD70D282210347CD52D3B9351BDA00747E45B344305A33A',X'61572EDEB4A3819DE1EE2E22A53D8F552E6F18763EA1B4E7461FE8448D9932E0');
INSERT INTO "event" VALUES(40,'attach/a-3',4,'00757ca8d6d447da9bd7c6ed400980d3','lease.ended',1,1795986725588069590,1795986725588324964,0,'{"attach":"a-3","how":"closed","checked":""}',X'28E67E0486CBE46E68F50225E6C6D110',X'C96280D024B3ADC6B3301C0F82D4D6CA5F97EA71A6CD6CF60BD9839288AA1CFC',X'094A41CA8A84C1E5A3A101EE5BA101A75341C52B100BAAAE87E8A240127E3534');
INSERT INTO "event" VALUES(41,'attach/a-7',1,'db6f23ce7b434357a8d3d45dea750449','attach.decided',1,1795986725588073830,1795986725588324964,0,'{"attach":"a-7","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'650F77BF9F843698F43AA8E95AA3C390',X'647D71047D68081C33C2751980DEC72FB8E801F5F191E82B7EC63B69E5A6DDF5',X'BE62B5EF26372E67F81C12BD1D349400004A22A61D6F8FA041C81C44C9CF8CCC');
INSERT INTO "event" VALUES(42,'attach/a-7',2,'8d3687df47494038ba9ab7bb221b2bc7','lease.granted',1,1795986725588076023,1795986725588324964,0,'{"attach":"a-7","residency":"r-1"}',X'825F882867287ECBF59693B0301D33F4',X'581996AC2F5E1FAFEE9BD513EB6F422EB584C1BC605298CEDB01C626DA8CEE86',X'EEA1A556949DE4DCA2D54F2D22170CBAE499EC082C4893B3D7DB6302AFC53D1C');
INSERT INTO "event" VALUES(43,'ledger',6,'476f6281794544bdadbccc4362ebf786','segment.opened',1,1795986725807644599,1795986725807760116,0,'{"state":{"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-7":[2,"{\"state\":\"granted\",\"outcome\":\"hit\",\"arrived\":false,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":42,"root":"d835f37bef710620206ec544488f7826e0cbda4dd98741e66174a9460b29c7a9","frontier":["42957944e012b1b6804ca5c48094c05d8d20c57a3db72244f95f0382373fa004","ad2d9be064047aad5d3ee4e85fee03ea38e2050a63ebe737abcc82d362a24848","7ee05ed93754b0b3520d4f0da18b0a5917433b800439f35ca71e98cffb717054"],"chain":"eea1a556949de4dca2d54f2d22170cbae499ec082c4893b3d7db6302afc53d1c","origin":"5d0a392847bbf1dd5d37e85a1c1dd1e3"}',X'1ED32AE79DEE5A35E642DC599B46D787',X'2CD279AE90DA220110C50D5743256F88F26EA3B5C1475EC22D884A432518E918',X'CBA4DD95BE85B7EE2E4E29C4906A525BCC8188C019F608602E0905705F789116');
INSERT INTO "event" VALUES(44,'ledger',7,'58420ea398384788b7da86510edca29f','ledger.gap',1,1795986725807955362,1795986725807986953,0,'{"from_ns":1795986725588324964,"to_ns":1795986725805090583,"merged":0,"lost":1,"why":"restored from a backup by uid 0; what else the ledger recorded after seq 42 is unknown"}',X'BBFAA6563469E33B1962DFE94E605D50',X'A89CBD70836AB17FC44155C75560B7E2C8F594AF129195B1C0A2F9CA60A2A7FC',X'CD1338408BC4E02812B07F4CC847180722220BA27B983B2E10220D8072D59C95');
INSERT INTO "event" VALUES(45,'attach/a-6',4,'9259df3490e542109ad982d00585614d','lease.ended',1,1795986725865083065,1795986725865323346,0,'{"attach":"a-6","how":"closed","checked":""}',X'E216AF3C29CEB2CF59B3E8A751F91D37',X'FBAE79AE4ED189B8170068622C036F2CAE1D28D97105BD4B540085BF4016A04F',X'CD9EB9F7462AE597F708FADD0C93C7DF2CCD0C285B23EADFFCB17A67E6287B62');
INSERT INTO "event" VALUES(46,'daemon/d-2',1,'01e07ce7379c46a39ce155b287c11e11','daemon.started',1,1795986725865086587,1795986725865323346,0,'{"instance":"d-2","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'DEF5CD246C42B3E597BCB324E40BCCE4',X'5D6C1E3586ADEA043178716A8EE91E442981FF9427199DE88B67E425DC00BC03',X'D8253BF2612F7C104928AD29DB68CC6B20DB177B9FA51E3A3C06D8D8F2CFD975');
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
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',2,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795986725524438568,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('3f10fec20294af230a35eb846e15693b',3,'content','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','/models/base','92dc691468bb800f4aebd29ffd0fbf429b09564131316b2d76f3cea9ed3f7a1d','/models/base','d-1',1795986725524438568,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
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
INSERT INTO "instance" VALUES('d-1',1,'running',1795986725523542694,NULL,10,0,'1','boot','/run/wcache');
INSERT INTO "instance" VALUES('d-2',46,'running',1795986725865086587,NULL,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795986725517949008');
INSERT INTO "meta" VALUES('origin','533aa6cef0e79b6b9db3269a24c6d859');
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
INSERT INTO "residency" VALUES('r-1',8,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','resident',1795986725523564306,NULL,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',24,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795986725523600059,1795986725523614364,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',2,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',8,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"proved"}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-4',2,'{"state":"fell_back","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-5',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-6',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-7',2,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unproven"}');
INSERT INTO "stream" VALUES('daemon/d-1',1,'');
INSERT INTO "stream" VALUES('daemon/d-2',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('fingerprint/3f10fec20294af230a35eb846e15693b',1,'');
INSERT INTO "stream" VALUES('ledger',7,'');
INSERT INTO "stream" VALUES('residency/r-1',2,'resident');
INSERT INTO "stream" VALUES('residency/r-2',4,'released');
INSERT INTO "stream" VALUES('trust/g-1',1,'active');
INSERT INTO "stream" VALUES('trust/g-2',2,'revoked');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',4,'checkpoint','active','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',NULL);
INSERT INTO "trust" VALUES('g-2',5,'checkpoint','revoked','{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',6);
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
