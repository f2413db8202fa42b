BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
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
INSERT INTO "attach" VALUES('a-1',9,9,1795987953703736365,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','proved',34,1795987953703741633,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',13,13,1795987953703743724,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',16,1795987953703750440,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',18,18,1795987953703752112,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953731149621,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',21,21,1795987953703756986,'l-1',0,2,'node','test','1',0,'/models/base',NULL,'raw','cpu','fallback','not_resident','',NULL,NULL,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee',NULL,NULL,NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[]','server');
INSERT INTO "attach" VALUES('a-5',25,25,1795987953703764117,'l-1',0,2,'node','test','1',0,'/models/base','r-2','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953703769480,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-6',35,35,1795987953715968564,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953880857715,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-7',41,41,1795987953731154182,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unproven',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
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
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'94799d67812248589e7d86d07db98fe2','daemon.started',1,1795987953703717285,1795987953704315904,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'8D79AADDC966A8F88AED6B0667C32846',X'BE13ADFD0127813691EAA1AD563D07A8B2BB135864A818E107EDDC0BFF9D7AE0',X'48D5EE54C37B8F6CB4B4734D29E67DA488B330D7DCC64BE14906CE4E496C5A87');
INSERT INTO "event" VALUES(2,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'bd7dc7ecbf284d1ea95fc9bb074ab0db','fingerprint.recorded',1,1795987953703721589,1795987953704315904,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'E1B4C3BBB0456BD0958DE9FAA8436261',X'D87649D9AB8FC78B5AA6AD1CFEE44617EF697820E987CCFBF6E83494108449EE',X'27F3C107B2838AE8B96FDFA626DCA119DA62ADC7E10B5D63ABB018D5228B4A87');
INSERT INTO "event" VALUES(3,'fingerprint/3f10fec20294af230a35eb846e15693b',1,'9a250acedd1c4005a0c3f28415eec7d4','fingerprint.recorded',1,1795987953703723687,1795987953704315904,0,'{"fingerprint":"3f10fec20294af230a35eb846e15693b","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'116EB23F82B47C597BE35E6FFC83E128',X'69F66A51F60DD2456A12B06CC36E6484FCADE6DAE7BF36FF8F1C737407701003',X'20109B841654A2C515058721BA6BC1698D529377C12CBC964AF22D7C8501A595');
INSERT INTO "event" VALUES(4,'trust/g-1',1,'6ee75cd0979e40be8ed90a1cfedea7c1','trust.granted',1,1795987953703725507,1795987953704315904,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'2D9F6BCAF9CFCD2B736C83BAD3E219C8',X'AD31EC00034B78E729C111B2EAB03575F9122E7499E4EC396BE15B924F09904D',X'863CC495A05FFD3049C2B2C32D29792481B41055906CB5735A8F4C331D6E2B34');
INSERT INTO "event" VALUES(5,'trust/g-2',1,'42c33d9fa9144755aee9d77fefa901fb','trust.granted',1,1795987953703727176,1795987953704315904,0,'{"grant":{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'719BC93B6131756C63BB3E0BAE0F2F3E',X'91755D41242B65BE4D2433710813792C3C2D6D1D5CF492CB60DA569A65CD9EFA',X'538EC74DF0AA6A5D2800ED8E9D333B8766D284E04E152A6AE80CFF01F6357235');
INSERT INTO "event" VALUES(6,'trust/g-2',2,'56f149056cab463db62a32c44a574955','trust.revoked',1,1795987953703729631,1795987953704315904,0,'{"grant":"g-2","operator_uid":0,"reason":""}',X'34D8B3F2D5039326EF3B266A3DAB600D',X'6095E9B726DDC9D412F5529E1AC10DFC241094C1C4684822A9CE12F013A51FE2',X'C5D2ED8E17EE7832A56585576A66C5E4A18E835DC52E8D44D8332524E40A2B1D');
INSERT INTO "event" VALUES(7,'residency/r-1',1,'94172106baa34893b4803a68760f8c14','load.started',1,1795987953703731952,1795987953704315904,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'3E2D90681D34C936A092C732E4AE2AFC',X'00BD8178354508C2CFCAE0C2B719B5C72E47092300125D74336277236BCED3B0',X'3778D5462069F7E542AC5B79F2D4604719D98039B9A5694B5639911E53358BB0');
INSERT INTO "event" VALUES(8,'residency/r-1',2,'41a62faa4fe94dec85f12b7d1864ba79','load.completed',1,1795987953703734054,1795987953704315904,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'37309D4565F63B7F8DF2F84D604A3917',X'E5EE00547D31B01E1AC4ACC325B76BDC8ECCF2B8E10644B3D81BECFC4AC8B38E',X'AC174181E92617355B60689BC2A2000EB39F7EE90223E4436C9D09234E330F86');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'68b3dbabb9934a0cb50baf2959e0bff6','attach.decided',1,1795987953703736365,1795987953704315904,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'A411623182CD2DF70302EF921DF998C4',X'C39D129E6601DCC1ABE76D3170FEAD8FD133329FAAEA675857C56721A28B8261',X'25668FF332E7876372A4A6FCD6351292FB9566BCB1F9C68900F4579C874CEB5E');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'794f7d0e2a664d57a50ded406cfb35c7','lease.granted',1,1795987953703738277,1795987953704315904,0,'{"attach":"a-1","residency":"r-1"}',X'0C6980DA8E8D4E53DAE4E5F679D283C4',X'ED2C6B950C2359D55E6E21E68389281C1A1CD25ED718573E6FBDB65A95CD1918',X'4C4E36364738ADFE791437AC75063439878884FD8DABBE80F0DA718BAAA3D737');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'e7c2a5db62794e02aea96a095c62bc2b','map.completed',1,1795987953703739956,1795987953704315904,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'F0D54575B50F1DEC1A49C70A22F4CB64',X'BBC179228A06743C0D599DD980D6549CCABA12BFCCDCEBB095FEF72C54BCEA89',X'27AEFEC8879FE95C509EBE61A3FC15452BE5E225CBBB28FC98CFBCBF2CA98CCE');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'957700448bbb4ed98615ac2066465b78','lease.ended',1,1795987953703741633,1795987953704315904,0,'{"attach":"a-1","how":"closed","checked":""}',X'6B59AC0E9AF9E8B9222ADE536ABD8B24',X'08440DFED6AA9B3D756896E60A49A0D021A7E6FC64720447ED023A1933E2A2F2',X'AB6C3732B9FBF483FC687C8F207F9291B7F9591870A3B9438906251B54F97B3F');
INSERT INTO "event" VALUES(13,'attach/a-2',1,'c27dd8b892b54779a4651a1b04b9ab20','attach.decided',1,1795987953703743724,1795987953704315904,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'B5B70341021F79696983A3A07B5663A2',X'3B4C9202CD6CCC7B06B10E18383BDE79FA7A68F81EDB6F1EBD0460048E9FE7B8',X'1858BA9167C81CF981977A32DEAA7AFC721E88A581402D3FD897ED4FD330E44A');
INSERT INTO "event" VALUES(14,'attach/a-2',2,'1877b7dd74754ef9b66245fb82f05a81','lease.granted',1,1795987953703745255,1795987953704315904,0,'{"attach":"a-2","residency":"r-1"}',X'F81E56A889A3840A0C054B1CD5275E73',X'FD380D8D1F16FB4BDB4F43D416AD110A8BBD52F5E2C733E32902E2FF6D9368BB',X'B0A5AB4FA51B10FAF111EA57218EF66D4B6E0961F3CDDDCDC82D6E0E602D43F7');
INSERT INTO "event" VALUES(15,'attach/a-2',3,'fc876034aa454ddfa0fcf856648d009c','map.completed',1,1795987953703746815,1795987953704315904,0,'{"attach":"a-2","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'9A62188849140478F6317C4D4F20591A',X'F08E3596AF1B218CD0CFDF3B13F9E208AC2BC4FDC89A07C4F6E1DF93A3D5EA34',X'2D1A2F69A60A494D918E36D8DD16A2C09C9DCDD8526D19B34C7FDDE32545DB91');
INSERT INTO "event" VALUES(16,'attach/a-2',4,'22138ee8b7d94405be4f0dbd87c555ec','verify.failed',1,1795987953703748546,1795987953704315904,0,'{"subject":"hit","attach":"a-2","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'24A449D0F4C11A7B0AD25B1097FA0E2E',X'5AAA6D3CA0DA21C7BFB0E4082452030C798FD7D58E6D784E1981FCD1114ABBF5',X'B1750E27AD6EF6033B5B4819D47AA5C58777DE7D142205DD3F05F959C71C4FA1');
INSERT INTO "event" VALUES(17,'attach/a-2',5,'e8781f2d849d4f139aab390f975edf30','lease.ended',1,1795987953703750440,1795987953704315904,0,'{"attach":"a-2","how":"closed","checked":""}',X'E8E0CA9F08426C3D466D40E7FBC69F86',X'DB6358A452AA6C953FB184ED7D7B2C80B720D6B402324D73182D62AC2E24A84D',X'320BF3DF73D2AECBC3CD9E5AC835B6641FDB159655D0FBE2A63095F2D9377368');
INSERT INTO "event" VALUES(18,'attach/a-3',1,'3d89e5dc4505418aab6f9ff33abc4b62','attach.decided',1,1795987953703752112,1795987953704315904,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'89D00A74139C03E789FF31948626E812',X'FE58064D33C90F839ADFC627DD06F6DCFBFE68478DA3C93AD8CC3912BB98BE2C',X'3F85B8E2A0EA6A89A05EBE4F0AE134CE01C28705C8FD6164E75529B43E489CF0');
INSERT INTO "event" VALUES(19,'attach/a-3',2,'76f3586ccb06412aabfe4db3ddf5ebfe','lease.granted',1,1795987953703753657,1795987953704315904,0,'{"attach":"a-3","residency":"r-1"}',X'DC424DAF33FE1C1CBF7D2911EACAC180',X'B0C7CAEB561AD6B626CC31D84AFA72127774A7A4D99BC3ABFE7D16C4FAB995DC',X'22F54A847C79EF7F858A0E522BBCCD99474B41663FB3B033159E889FD6ABA192');
INSERT INTO "event" VALUES(20,'attach/a-3',3,'84d94fe3e3c54c7dbb10ea666ad9dbb9','map.completed',1,1795987953703755311,1795987953704315904,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'ACDA7E21158DF610FDC04A471CFCD4A8',X'C6DDD78B0156836E1FF1F0D9D6FC05DEB877D592D7DB549408BF13401219C9DC',X'2C867AC1605439DCA8080EC79911F66301E52A01334D8ADC98DB97BD86971D50');
INSERT INTO "event" VALUES(21,'attach/a-4',1,'2151441360884481a7854b07a187ae2a','attach.decided',1,1795987953703756986,1795987953704315904,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":null,"residency":null,"kind":"raw","device":"cpu","outcome":"fallback","reason":"not_resident","detail":"","tier":null,"mode":null,"evidence":[],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'C13E0914CDBEAFD90282DA77E4C98CD9',X'87B71369C81726FC4B7D5C53AD0B1981F06C02DEA7AF0B859E6BA73A9BF92226',X'1220701BC23882D7D2360D6A49CA4916CD820D8B18B7BA0C60CBFF0577E9CA0A');
INSERT INTO "event" VALUES(22,'attach/a-4',2,'b689bbb198d14c619f6d053d5152fe14','fallback.completed',1,1795987953703758694,1795987953704315904,0,'{"attach":"a-4","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'C9677C929D79E8CC31DBB107A3E0DB31',X'1F2290E5708CB169DA0824BE9C9F3310EB1CDA2CAA81A6622DF3860B993F8E03',X'A76CB89E37B670D44236FA76544B2BFAC3D17F937EE2786EE42BBC51BF359382');
INSERT INTO "event" VALUES(23,'residency/r-2',1,'d864362ad54742109cd5a1c842851980','load.started',1,1795987953703760403,1795987953704315904,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'E1E095C1DFBDE64306FD80F5EAEDA7C4',X'2FDE94352A12403248783431DA129675F8592206B991FE885598763CE447BF40',X'888101AFB84A2032CB8EFA73B5572D2D36E5AD81AE8288D4ECA6A208B6F87CF2');
INSERT INTO "event" VALUES(24,'residency/r-2',2,'fea7bb0a39374b8bb1c13c3a28a186ae','load.completed',1,1795987953703762406,1795987953704315904,0,'{"residency":"r-2","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":[],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'C57649F740AA126CEB30DBD152E2F35E',X'8B3539F9AE26FAD3FE3C6B1F4720D77997F3BE4ED41A7F90E8D7FCCC633DB8E3',X'95D105598EE0363C253E0AC7F8BF9EA84E21909CCAC03916CF02D0C64437CAC5');
INSERT INTO "event" VALUES(25,'attach/a-5',1,'893ce68aff2947aeb45e240fab79bb15','attach.decided',1,1795987953703764117,1795987953704315904,0,'{"attach":"a-5","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-2","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'ED98925B1A86333F132F4A459594440A',X'6D505F585F13E1785FA94911A23E63EAED57ABE9A57A1F5ABFDECF9E3A533AB5',X'42144A81BE31A0B800ED01BBBFC06D00C1FEC1C118989FD18E48EA3197908ED6');
INSERT INTO "event" VALUES(26,'attach/a-5',2,'f11fd7f862814d80b6ade564402625a4','lease.granted',1,1795987953703766208,1795987953704315904,0,'{"attach":"a-5","residency":"r-2"}',X'4907C10CDB4AFE8007094F6AA22DFD2F',X'ADE909740E20090E572AD5D211A95E830ADBB6DFF05840B3EA3C2E25BD3F7DA6',X'FEEF2552D0A1AE49093EDD466234F8E101246AAA5FB0A3C495AD701E48320167');
INSERT INTO "event" VALUES(27,'attach/a-5',3,'483088c4808e46a484afdc60b5bcdd8e','map.completed',1,1795987953703767849,1795987953704315904,0,'{"attach":"a-5","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'66D34A90B3F3851A8997414785CA3052',X'061071F3A1539C8661022B86858FF4919A578802337F116A455872A79BA00DB6',X'FDE26F28C2E38C332AA61B6184134C5518DF9CFBE876628B51F1DFCD07578D70');
INSERT INTO "event" VALUES(28,'attach/a-5',4,'66c5c277f55c4c08842fba871685fadc','lease.ended',1,1795987953703769480,1795987953704315904,0,'{"attach":"a-5","how":"closed","checked":""}',X'AF852FC6E8D4AB7AC7C7F23515D1B5EC',X'59D23B5DD1E77F6BE53C0D466D900912F9204BB9BE0C8D3B3B3EB64CB7C8C33E',X'6EA3DD3D3DA6D93C2F4E3D5B04451AFE3A3A3680B2CCCAC646C2C108EB60C5C9');
INSERT INTO "event" VALUES(29,'residency/r-2',3,'aba80db2525a459eaaf3c829fede4b63','release.requested',1,1795987953703772013,1795987953704315904,0,'{"residency":"r-2","uid":0,"why":"asked","force":false,"leases":[],"when_free":false}',X'C76D04CD7D1D8A7E8F889C0599EA7628',X'CA0652417EF9EFE08503951A6100A5F53746E01D62C424CF3931CCBDC0BAB7AF',X'0F9F10F837604718FE805C1352282CB2036997E4DC99FB0127200504F0BD92F8');
INSERT INTO "event" VALUES(30,'residency/r-2',4,'8262603a63bd4f67a0d1d114635d1706','release.completed',1,1795987953703773658,1795987953704315904,0,'{"residency":"r-2","bytes":1000,"checked":""}',X'CABEB5C3E93A221DF58BD61F9A3BA8D6',X'706AD731625D8D2F7C27F92110228C511607B15CF6D509CBEC63E7E3ED224E6B',X'6242CEBB22D51EA87D6487D6A880CE17C604012FD52F1D500CC0521DC5856B4B');
INSERT INTO "event" VALUES(31,'ledger',1,'a74d1312f5a6466bb70064364922fd24','peer.refused',1,1795987953703775427,1795987953704315904,0,'{"peer":{"uid":1000,"pid":5},"why":"another user"}',X'DDFBADAFBAB28902D328D17EAD178A83',X'B69064EAD4164CFCC5DE761166A8AE33CB285EE23557586B742552FC1CFBAFE3',X'B727DD5F36AC0EF2FD62F4469D1EDBD632D544037549FE8CA158FEA3A6A21EFC');
INSERT INTO "event" VALUES(32,'ledger',2,'72db7a60d13f4b59a464e5a458127ed2','segment.closed',1,1795987953711176927,1795987953711236516,0,'{"size":31,"root":"287e8ee0e32558542d6fac5edd92674d506052d769883262eaf1b7aa4c0d5051","uid":0}',X'711B08001401FF166C476935855BE807',X'28D260AEC6898400E00E2C36CC0F606D9AC2C24FB7D710BF7695FD6241E8EAA6',X'659DBF51E3C6B70B1C696A255FD64E504D736A36F5B6E6685CE006171E0EC882');
INSERT INTO "event" VALUES(33,'ledger',3,'9eae33ee35f64674baf5aa1a30c8bccd','segment.opened',1,1795987953711478782,1795987953711521331,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":32,"root":"97ce41a1cd17754ff8f7834cda8a2ecfe603418d2cc0a66bf45b2948d1638b8b","frontier":["97ce41a1cd17754ff8f7834cda8a2ecfe603418d2cc0a66bf45b2948d1638b8b"],"chain":"659dbf51e3c6b70b1c696a255fd64e504d736a36f5b6e6685ce006171e0ec882","origin":"69d70c88588ca3c67cec1b269954b0d2"}',X'01AFF2C2557D8F87C123DBFBA8B31B53',X'79440475BD7A773484B8AA7D3AD6CA5200C8391D70F0BCAA323CAF887124B429',X'C615B0DD837F7DEF12365CCB0869A6877FD46821BC3F8EEC59B0C7FE9B352DD4');
INSERT INTO "event" VALUES(34,'attach/a-1',5,'dff7ae9ed8604afaa5ea4f782bfff662','verify.passed',1,1795987953715965732,1795987953716243789,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'ED54A7D48CAD6812B19F945A258A2088',X'1D311C422BBCBFE2E2A1629C03EFF3A1B3C792AFCAF54A8A31ECEA5554687122',X'FA5569279E663C73CB009763328BEE42DECA01D447ECA994E67F48C2F92124BD');
INSERT INTO "event" VALUES(35,'attach/a-6',1,'32ebb931d5e040839a738d44fd4ef00e','attach.decided',1,1795987953715968564,1795987953716243789,0,'{"attach":"a-6","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'D2F554F41132DA3F123BEDA559ED5FE7',X'90133EDB23058D721608FCBABFE97D17F32F9EA24397E271A3BED15BBBCF8FC5',X'AEDD713D53F6FE46A4CA9C03B437A15FFE3F0994E65976973B6A092802F6C622');
INSERT INTO "event" VALUES(36,'attach/a-6',2,'b3ea5d7c1e974aa2a3edf63b74347268','lease.granted',1,1795987953715970532,1795987953716243789,0,'{"attach":"a-6","residency":"r-1"}',X'908194432FD342439A849713CD598C2E',X'6564A6606C82D0054A578E0AE0EF096B5B89258571A0380EA8F274975C09C866',X'E9E0C8DDAC0CA82CDB1E58A908993338482193482D8ED2E8C4779604F065B27F');
INSERT INTO "event" VALUES(37,'attach/a-6',3,'5d3ade75703c403cb8a18f6dd9446a68','map.completed',1,1795987953715972578,1795987953716243789,0,'{"attach":"a-6","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'AE9BB69C29EDB5D274BFDFEE15011B31',X'68A995689349F89708D0CE93F55A92E080565028F9F4C6796D838249F9E42649',X'6672C17DE1890274C2AEC3ACD7414B852BF84A4E1CE05CE6BBD1D3621A67E092');
INSERT INTO "event" VALUES(38,'ledger',4,'4261f8ae252142f7bc60ddf79b060bb7','segment.closed',1,1795987953724194401,1795987953724415943,0,'{"size":37,"root":"24b476251a3cc111ae4fea7179997cf6ce9afe7762ae5000584716d36ba332ec","uid":0}',X'852BBE300E080EDFA0189078FD27F69C',X'94502F4088B35AE76F8F75403505176FAD219797F7AA111113946B333B34F79D',X'FAEAD8A4D6EA3FA8DFFE0086F5E9CC17297B0A41ECFF2A748354CA58653225CA');
INSERT INTO "event" VALUES(39,'ledger',5,'6a31255ccb7b4a9fb93464398d377148','segment.opened',1,1795987953724602513,1795987953724643338,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":38,"root":"b11b572329f446576b3abfe76e73b5c3abd495994fdbe08f0f152ae08553b40b","frontier":["97ce41a1cd17754ff8f7834cda8a2ecfe603418d2cc0a66bf45b2948d1638b8b","5247b028101ccddc1e8adce36823af7007b33b4594b08a250c834344e4060a70","8d3cce123a1e72bac17c67c89966560041cc8beeefa261626b54683a5735bac8"],"chain":"faead8a4d6ea3fa8dffe0086f5e9cc17297b0a41ecff2a748354ca58653225ca","origin":"69d70c88588ca3c67cec1b269954b0d2"}',X'0C4783E2AE062F8F2B4E70A051DCCFC9',X'72041D08C002E33DB455DBDB609B2EB240E8E6F2F463439637CEB01B7C627499',X'C2B3B4F79F6473A84A74D0B9A929F10D270B093EA0138922B807B0E4F93CD931');
INSERT INTO "event" VALUES(40,'attach/a-3',4,'2a4dcf3561af40cdb76b702a2a76b023','lease.ended',1,1795987953731149621,1795987953731388433,0,'{"attach":"a-3","how":"closed","checked":""}',X'72491ECD7ED804C17E11D215B9AC1941',X'CD6F0869D70BE6AD16150A98F58C2CE58EA6DBCC984AE3A304E6C559412EF4A7',X'9EE24EB263E6C48DD28238C885938F53CC92C72D95D52287694D3B100AE3B1A9');
INSERT INTO "event" VALUES(41,'attach/a-7',1,'cefb30ec54f0478eaf0949bd350d71d5','attach.decided',1,1795987953731154182,1795987953731388433,0,'{"attach":"a-7","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'95E90EB2DDA79A2A5ACE8AD8EA75DF20',X'FB0762B7B34298F353561565B9BB3BFE7B6F6593932975F5BDB5941319D912A6',X'2BF4A6956EF128E9DCDBDCA5B6849EAEA42E7C14D03DEADCD634C420428EDD4A');
INSERT INTO "event" VALUES(42,'attach/a-7',2,'7d57452fce124145940530e51148b8c5','lease.granted',1,1795987953731156169,1795987953731388433,0,'{"attach":"a-7","residency":"r-1"}',X'9797D260DC1D94731811092E3651EBAA',X'EC3B1398DA5027E9603AADCEB1E5DC07483314F5199B6F7B4AE3CA8BD01E320B',X'2755BDA21365FDD6F7F3A7FF065E02DA69C7A220E04BDF2A2FDD2C7F414F3280');
INSERT INTO "event" VALUES(43,'ledger',6,'c97d9e96d7324e009a8ad0cd2094d9a9','segment.opened',1,1795987953858379112,1795987953858479661,0,'{"state":{"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-7":[2,"{\"state\":\"granted\",\"outcome\":\"hit\",\"arrived\":false,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":42,"root":"185f6690cf9c0bb030c42afac00e4bf007895934d561fc71ee9b8f90ece95890","frontier":["97ce41a1cd17754ff8f7834cda8a2ecfe603418d2cc0a66bf45b2948d1638b8b","9a21dfe97bde1a7d74c6268d61c8207a9f44aa7e584f25bd7f8443add7a38068","5a94f7b15e77f182cca1db36356ef92c8e22e8e2aa89441880f3d7702430a90e"],"chain":"2755bda21365fdd6f7f3a7ff065e02da69c7a220e04bdf2a2fdd2c7f414f3280","origin":"69d70c88588ca3c67cec1b269954b0d2"}',X'4D7490E2F4478278860456B09A3A78E8',X'E93EB6001AD04431B83BE7BA63D44C958E84241B0CAA87CB76A31488AB01651B',X'87E4A4BADD6D69DBE0133EED16AFEDCBFAE2D8576712F3B2F80BA60439BAC317');
INSERT INTO "event" VALUES(44,'ledger',7,'7554dbc9c6f144ce810b6b947f85c417','ledger.gap',1,1795987953858670547,1795987953858706680,0,'{"from_ns":1795987953731388433,"to_ns":1795987953851828658,"merged":0,"lost":1,"why":"restored from a backup by uid 0; what else the ledger recorded after seq 42 is unknown"}',X'D72D7ED4FF8B51BE20A7FD7FA9D87358',X'31F69418E587EF0E41495E32DF5C14FF5E8B632EDCB4F79FAFA635DE65590A3B',X'34F21896A5AF9885B086DCBF77C1CEE862B110C9333DF190D654EDB27DB2B60A');
INSERT INTO "event" VALUES(45,'attach/a-6',4,'2c1288c480a945d89f907091488c7a84','lease.ended',1,1795987953880857715,1795987953881070884,0,'{"attach":"a-6","how":"closed","checked":""}',X'3E7DEEC00B531A78F22F254B61F7DD24',X'DD338DE5BB35E5705E0D56FC578AED928B5F57295FD7C2665F4EDC69080185B8',X'9AE51B634D6E84D19FFCEEE5286937C9F2E5B06157FFCBA9B17C380DA705098F');
INSERT INTO "event" VALUES(46,'daemon/d-2',1,'ab3a97b615724b1da8c30c84e5350723','daemon.started',1,1795987953880860550,1795987953881070884,0,'{"instance":"d-2","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'B4A3952DA1F62BFC378853F899D3B144',X'BBB5F00A6305CFE0AC0B2A9CF13C3D18F5EF1791B380BFC96A03B07F022644D3',X'36849C0B9D8AD9123FED20F6DF0B89F54D5319A38B69E90F320A3D9918893CB0');
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
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',2,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795987953704315904,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('3f10fec20294af230a35eb846e15693b',3,'content','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','/models/base','92dc691468bb800f4aebd29ffd0fbf429b09564131316b2d76f3cea9ed3f7a1d','/models/base','d-1',1795987953704315904,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
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
INSERT INTO "instance" VALUES('d-1',1,'running',1795987953703717285,NULL,10,0,'1','boot','/run/wcache');
INSERT INTO "instance" VALUES('d-2',46,'running',1795987953880860550,NULL,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795987953702597625');
INSERT INTO "meta" VALUES('origin','7d49122e1625fadac4982fd89757aa56');
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
INSERT INTO "residency" VALUES('r-1',8,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','resident',1795987953703734054,NULL,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',24,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795987953703762406,1795987953703773658,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
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
CREATE VIEW attaches AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', decided_ns / 1000000000, 'unixepoch') || printf('.%03dZ', decided_ns / 1000000 % 1000) AS time, launch, rank, world, host, engine, engine_version, checkpoint, decision, reason, detail, tier,
  mode, state, proof, residency, kind, device, asked_digest, served_digest, asked_commit, served_commit, mapped_bytes, copied_bytes, map_ms,
  fallback_bytes, fallback_s, idle_bytes, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, uid, decided_by, policy, attach, first_seq, proof_seq, decided_ns
FROM attach;
CREATE VIEW hits AS
SELECT * FROM attaches WHERE decision = 'hit';
CREATE VIEW unproven_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND proof = 'unproven' AND tier IN ('header', 'sampled', 'attested', 'trusted');
CREATE VIEW wrong_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND (proof = 'refuted' OR asked_digest <> served_digest);
CREATE VIEW fallbacks AS
SELECT * FROM attaches WHERE decision <> 'hit';
CREATE VIEW launches AS
SELECT launch, strftime('%Y-%m-%dT%H:%M:%S', min(decided_ns) / 1000000000, 'unixepoch') || printf('.%03dZ', min(decided_ns) / 1000000 % 1000) AS time, min(host) AS host, min(engine) AS engine, min(checkpoint) AS checkpoint,
  max(max(world), max(rank) + 1) AS ranks, count(DISTINCT rank) AS asked,
  count(DISTINCT rank) - count(DISTINCT CASE WHEN decision <> 'hit' OR mapped_bytes IS NULL THEN rank END) AS mapped,
  min(decided_ns) AS decided_ns
FROM attach AS this
WHERE NOT EXISTS (
  SELECT 1 FROM attach AS later WHERE later.launch = this.launch AND later.rank = this.rank AND later.checkpoint = this.checkpoint
    AND later.engine = this.engine AND later.seq > this.seq
)
GROUP BY launch;
CREATE VIEW incomplete_launches AS
SELECT * FROM launches WHERE mapped < ranks;
CREATE VIEW residencies AS
SELECT residency, seq, state, checkpoint, root, repo, commit_id, kind, device, bytes, tensors, weights_digest,
  strftime('%Y-%m-%dT%H:%M:%S', loaded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', loaded_ns / 1000000 % 1000) AS loaded, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, instance,
  (SELECT count(attach) FROM attach WHERE attach.residency = residency.residency AND attach.state IN ('granted', 'mapped', 'copied'))
    AS leases,
  loaded_ns, ended_ns
FROM residency;
CREATE VIEW grants AS
SELECT "grant", seq, scope, state, json_extract(body, '$.reason') AS reason, json_extract(body, '$.operator_uid') AS operator_uid,
  strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.granted_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.granted_ns') / 1000000 % 1000) AS granted, strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.expires_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.expires_ns') / 1000000 % 1000) AS expires, revoked_seq,
  json_extract(body, '$.spellings') AS spellings, json_extract(body, '$.weights_digest') AS weights_digest,
  json_extract(body, '$.residency') AS residency, json_extract(body, '$.instance') AS instance, json_extract(body, '$.prefix') AS prefix
FROM trust;
CREATE VIEW events AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', occurred_ns / 1000000000, 'unixepoch') || printf('.%03dZ', occurred_ns / 1000000 % 1000) AS time, strftime('%Y-%m-%dT%H:%M:%S', recorded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', recorded_ns / 1000000 % 1000) AS recorded, type, stream, version, late, payload, occurred_ns, recorded_ns
FROM event;
CREATE VIEW days AS
SELECT strftime('%Y-%m-%d', decided_ns / 1000000000, 'unixepoch') AS day, decision, coalesce(reason, tier) AS why,
  count(attach) AS attaches, sum(mapped_bytes) AS mapped_bytes, sum(fallback_bytes) AS fallback_bytes, sum(idle_bytes) AS idle_bytes
FROM attach GROUP BY 1, 2, 3;
COMMIT;
